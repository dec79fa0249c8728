import { expect, test } from "./page";

test("the overview says how the box is, shows its cards and its models", async ({ page }) => {
  await page.goto("/");
  await expect(page.locator(".verdict")).toContainText(/fits|does not fit|starting|runs on/);
  await expect(page.getByText("GPU 0", { exact: true })).toBeVisible();
  const models = page.getByRole("region", { name: "Models" });
  await expect(models.getByRole("row")).not.toHaveCount(0);
  await expect(page.getByRole("region", { name: "Tokens per second" }).locator("canvas")).toHaveCount(2);
  await expect(page.getByRole("region", { name: "Needs attention" })).toBeVisible();
});

test("every page in the navigation opens, and nothing else is linked", async ({ page }) => {
  await page.goto("/");
  const links = page.getByRole("navigation", { name: "Pages" }).getByRole("link");
  const names = (await links.allTextContents()).filter((name) => name !== "Skip to content");
  expect(names).toEqual([
    "Overview",
    "Models",
    "Conversations",
    "Requests",
    "Compare",
    "GPUs",
    "Keys",
    "Connect",
    "Events",
    "Settings",
  ]);
  for (const name of names.slice(1)) {
    await links.filter({ hasText: name }).click();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(name);
    await expect(links.filter({ hasText: name })).toHaveAttribute("aria-current", "page");
  }
});

test("an address that leads nowhere says so", async ({ page }) => {
  await page.goto("/nothing/here");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("No such page");
  await page.goto("/models/no-such-model");
  await expect(page.locator(".verdict")).toContainText("There is no model of this name");
});

test("what to paste holds the real address", async ({ page }) => {
  await page.goto("/connect");
  const shell = page.getByRole("region", { name: "Claude Code" });
  await expect(shell).toContainText(/ANTHROPIC_BASE_URL=http:\/\/[\w.-]+:\d+/);
});

test("a model that cannot be made is refused in the API's own words", async ({ page }) => {
  await page.goto("/models");
  await page.getByRole("button", { name: "Add a model…" }).click();
  const dialog = page.getByRole("dialog", { name: "Add a model" });
  await dialog.getByLabel("Name", { exact: true }).fill("not a name!");
  await dialog.getByLabel("Source").fill("nobody/nothing");
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await expect(dialog.getByRole("alert")).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
});
