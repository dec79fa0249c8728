/** What every spec shares: a page whose complaints fail the test, and the name of a served model. */
import { test as base, expect, type Page } from "@playwright/test";

/** A test whose page may log no error, throw nothing and break no rule of its own policy. */
export const test = base.extend<{ page: Page }>({
  page: async ({ page }, use) => {
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(`thrown: ${error.message}`));
    page.on("console", (message) => {
      // A browser logs every refused call by itself; what the page makes of it is the spec's business.
      const refusal = message.location().url.includes("/lmwarden.v1.");
      if (message.type() === "error" && !refusal) complaints.push(`logged: ${message.text()}`);
    });
    await page.addInitScript(() => {
      addEventListener("securitypolicyviolation", (e) => {
        console.error(`the page's policy refused ${e.blockedURI} (${e.effectiveDirective})`);
      });
    });
    await use(page);
    expect(complaints).toEqual([]);
  },
});

/** Opens the page of the first served model and returns its name. */
export async function openModel(page: Page): Promise<string> {
  await page.goto("/");
  const link = page.getByRole("rowheader").getByRole("link").first();
  const name = (await link.textContent()) ?? "";
  await link.click();
  await expect(page.getByRole("heading", { level: 1, name })).toBeVisible();
  return name;
}

/** Returns an address that run.sh hands on. */
export function address(name: string): string {
  const value = process.env[name];
  if (value === undefined || value === "") throw new Error(`${name} is not set: run tests/page/run.sh.`);
  return value;
}

export { expect };
