import { expect, openModel, test } from "./page";

test("what to paste is copied as it stands", async ({ page, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const model = await openModel(page);
  await page.goto("/connect");
  await expect(page.getByText("No key is asked for")).toBeVisible();
  for (const client of ["Claude Code", "OpenAI SDK"]) {
    const recipe = page.getByRole("region", { name: client, exact: true });
    await expect(recipe.locator("pre")).toContainText(model);
    await recipe.getByRole("button").click();
    const text = await recipe.locator("pre").textContent();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe(text);
  }
});

test("recipes that the daemon does not give are asked for again", async ({ page }) => {
  let refused = true;
  await page.route(/SystemService\/ListRecipes/, (route) =>
    refused
      ? route.fulfill({ status: 503, json: { code: "unavailable", message: "busy" } })
      : route.continue(),
  );
  await page.goto("/connect");
  await expect(page.getByRole("alert")).toContainText("Busy");
  refused = false;
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByRole("region", { name: "Codex" })).toBeVisible();
});
