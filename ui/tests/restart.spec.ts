import { expect, openModel, test } from "./page";

test("replicas are restarted one by one, and the others go on", async ({ page }) => {
  test.setTimeout(240_000);
  await openModel(page);
  const ready = page.getByRole("link", { name: /^replica \d+, ready$/ });
  await expect(ready).not.toHaveCount(0);
  const all = await ready.count();
  await page.getByRole("button", { name: "Restart…" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Restart" }).click();
  const notice = page.getByText(/^Restarting replica \d+; \d+ of \d+ are done/);
  await expect(notice).toBeVisible();
  let fewest = all;
  await expect
    .poll(
      async () => {
        fewest = Math.min(fewest, await ready.count());
        return notice.isVisible();
      },
      { timeout: 200_000, intervals: [100] },
    )
    .toBe(false);
  expect(fewest).toBeGreaterThanOrEqual(all - 1);
  await expect(ready).toHaveCount(all);
  await expect(page.locator(".banner.bad")).toHaveCount(0);
});
