import { expect, openModel, test } from "./page";

const background = () => getComputedStyle(document.body).backgroundColor;

test("the theme follows the system until the reader chooses", async ({ page }) => {
  await page.emulateMedia({ colorScheme: "dark" });
  await page.goto("/");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  const dark = await page.evaluate(background);
  await page.getByRole("button", { name: "Light theme" }).click();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "light");
  expect(await page.evaluate(background)).not.toBe(dark);
  await page.reload();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "light");
});

test("no page scrolls sideways, on a telephone as on a wide screen", async ({ page }) => {
  test.setTimeout(180_000);
  await openModel(page);
  const model = page.url();
  for (const address of [
    model,
    "/",
    "/models",
    "/conversations",
    "/requests",
    "/compare",
    "/gpus",
    "/keys",
    "/connect",
    "/events",
    "/settings",
  ]) {
    await page.goto(address);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    for (const width of [400, 700, 1360]) {
      await page.setViewportSize({ width, height: 900 });
      // What is drawn to the width of the page is drawn anew a moment after that has changed.
      await expect
        .poll(
          () =>
            page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth),
          { message: `${address} at ${width} px` },
        )
        .toBe(0);
    }
  }
});

test("the keyboard reaches the content and the settings", async ({ page }) => {
  await openModel(page);
  await page.reload();
  await expect(page.getByRole("switch", { name: "Affinity" })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to content" })).toBeFocused();
  const affinity = page.getByRole("switch", { name: "Affinity" });
  await affinity.focus();
  await page.keyboard.press("Space");
  await expect(page.getByRole("button", { name: /^Save 1.change$/ })).toBeEnabled();
  await page.getByRole("button", { name: "Reset" }).first().press("Enter");
  await expect(affinity).toBeChecked();
});

test("whoever wants less motion gets none", async ({ page }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await openModel(page);
  await expect(page.locator(".meter i").first()).toBeAttached();
  const longest = await page.evaluate(() =>
    Math.max(
      ...[...document.querySelectorAll("*")].map((e) =>
        Number.parseFloat(getComputedStyle(e).transitionDuration),
      ),
    ),
  );
  expect(longest).toBe(0);
});
