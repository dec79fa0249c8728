import { expect, openModel, test } from "./page";

test("affinity is switched off and on live", async ({ page }) => {
  await openModel(page);
  const form = page.getByRole("region", { name: "Routing settings" });
  const card = page.getByRole("region", { name: "Data-parallel routing" });
  for (const [state, checked] of [
    ["off", false],
    ["on", true],
  ] as const) {
    await form.getByRole("switch", { name: "Affinity" }).setChecked(checked);
    await form.getByRole("button", { name: /^Save 1.change$/ }).click();
    await expect(form.getByText("Saved.")).toBeVisible();
    await expect(card.getByText(`Affinity ${state}`)).toBeVisible();
  }
});

test("the spill threshold is set, and an empty one is auto again", async ({ page }) => {
  await openModel(page);
  const form = page.getByRole("region", { name: "Routing settings" });
  const card = page.getByRole("region", { name: "Data-parallel routing" });
  const field = form.getByLabel("Spill threshold");
  await field.fill("3");
  await form.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(card.getByText(/Spill threshold 3, not while admission works$/)).toBeVisible();
  await field.fill("");
  await form.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(card.getByText(/Spill threshold \d+ \(auto\), not while admission works$/)).toBeVisible();
});

test("a value out of range is refused at its field, before anything is sent", async ({ page }) => {
  await openModel(page);
  const form = page.getByRole("region", { name: "Routing settings" });
  await form.getByLabel("Spill threshold").fill("5000");
  await expect(form.getByRole("alert")).toContainText("at most 4,096");
  await expect(form.getByRole("button", { name: /^Save/ })).toBeDisabled();
  await form.getByRole("button", { name: "Reset" }).click();
  await expect(form.getByLabel("Spill threshold")).toHaveValue("");
});

test("whoever saves second is told, and nothing is overwritten in silence", async ({ page, context }) => {
  const name = await openModel(page);
  const form = page.getByRole("region", { name: "Routing settings" });
  await form.getByLabel("Spill threshold").fill("5");
  const other = await context.newPage();
  await other.goto(page.url());
  const others = other.getByRole("region", { name: "Routing settings" });
  await others.getByLabel("Spill threshold").fill("6");
  await others.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(others.getByText("Saved.")).toBeVisible();
  // A tab behind another one draws nothing, and a browser may let it wait.
  await page.bringToFront();
  await form.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(form.getByRole("alert"), name).toContainText("Somebody else changed these settings");
  await other.bringToFront();
  await others.getByLabel("Spill threshold").fill("");
  await others.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(others.getByText("Saved.")).toBeVisible();
});

test("the engine's settings say that they restart the replicas", async ({ page }) => {
  await openModel(page);
  await page.getByRole("button", { name: "Show the engine's settings" }).click();
  const form = page.getByRole("region", { name: "Engine settings" });
  await expect(form.getByLabel("KV cache type")).toBeVisible();
  await expect(form.getByText("restarts replicas").first()).toBeVisible();
});
