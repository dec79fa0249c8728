import { expect, openModel, test } from "./page";

test("the map and the card show one lane and one row a replica", async ({ page }) => {
  await openModel(page);
  const rows = page.getByRole("region", { name: "Data-parallel routing" }).getByRole("rowheader");
  await expect(rows).not.toHaveCount(0);
  const replicas = await rows.count();
  await expect(page.locator(".lane")).toHaveCount(replicas);
  await expect(page.getByText("the engine's own figure for its KV cache")).toBeVisible();
  await expect(page.getByText(/Counters since the warden started/)).toBeVisible();
});

test("figures change in place while traffic flows", async ({ page }) => {
  await openModel(page);
  const card = page.getByRole("region", { name: "Data-parallel routing" });
  await expect(card.getByRole("row").nth(1)).toBeVisible();
  const before = await card.getByRole("table").textContent();
  await expect.poll(() => card.getByRole("table").textContent(), { timeout: 30_000 }).not.toBe(before);
});

test("a decision leads to the reasons for it", async ({ page }) => {
  await openModel(page);
  const decisions = page.getByRole("region", { name: "Latest decisions" });
  // The feed moves; the address of a line does not.
  const address = await decisions.getByRole("listitem").first().getByRole("link").getAttribute("href");
  await page.goto("/requests");
  await page.locator(`a[href="${address}"]`).first().click();
  await expect(page.getByRole("heading", { level: 1 })).toContainText("Request");
  await expect(page.locator(".verdict")).not.toBeEmpty();
  await expect(page.getByRole("region", { name: "Record" })).toContainText("Home and replica");
});

test("a block of the map leads to its conversation", async ({ page }) => {
  const model = await openModel(page);
  const block = page.locator("a.seg").first();
  await expect(block).toBeVisible();
  const address = (await block.getAttribute("href")) ?? "";
  await page.goto(address);
  await expect(page.getByRole("region", { name: /^Conversation / })).toBeVisible();
  await expect(page.getByLabel("Model")).toHaveValue(model);
});

test("stopping asks first, and does nothing when it is cancelled", async ({ page }) => {
  await openModel(page);
  await page.getByRole("button", { name: "Stop…" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog).toContainText("Its cards become free");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByRole("button", { name: "Stop…" })).toBeVisible();
});

test("a replica shows its engine's command line and log", async ({ page }) => {
  await openModel(page);
  await page.getByRole("link", { name: /^replica 0,/ }).click();
  await expect(page.getByRole("region", { name: "Engine" })).toContainText("serve");
  await expect(page.getByRole("region", { name: "Log" }).locator("pre")).not.toBeEmpty();
});
