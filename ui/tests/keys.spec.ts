import { address, expect, test } from "./page";

// Nothing else calls this daemon, so a limit meets only what a test sends.
test.use({ baseURL: address("LMWARDEN_KEYED_URL") });

/** Sends a chat with the key of somebody; there is no model, so what is let in gets 404. */
async function ask(somebody: string): Promise<Response> {
  return fetch(`${address("LMWARDEN_KEYED_INFERENCE_URL")}/v1/chat/completions`, {
    method: "POST",
    headers: { Authorization: `Bearer sk-of-${somebody}`, "Content-Type": "application/json" },
    body: JSON.stringify({ model: "none", messages: [{ role: "user", content: "Hello" }] }),
  });
}

const status = async (somebody: string) => (await ask(somebody)).status;

test("a limit of one key is shown and obeyed, and taken back", async ({ page }) => {
  await page.goto("/keys");
  await page.getByRole("link", { name: "alice" }).click();
  const form = page.getByRole("region", { name: "Limits of alice" });
  const cells = page.getByRole("row", { name: /^alice/ }).getByRole("cell");
  const field = form.getByLabel("Requests a minute");
  await expect(cells).toHaveText(Array(5).fill("not set"));
  expect(await status("alice")).toBe(404);
  await field.fill("1");
  await form.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(form.getByText("Saved.")).toBeVisible();
  await expect(cells.nth(1)).toHaveText("1");
  await expect.poll(() => status("alice")).toBe(429);
  const refusal = await ask("alice");
  expect(Number(refusal.headers.get("Retry-After"))).toBeGreaterThan(0);
  expect(await refusal.text()).toContain("The key of alice is limited to 1 request a minute");
  expect(await status("bob")).toBe(404);
  await field.fill("");
  await form.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(cells.nth(1)).toHaveText("not set");
  expect(await status("alice")).toBe(404);
});

test("a limit of every key holds for each that states none", async ({ page }) => {
  await page.goto("/keys");
  await expect(page.locator(".verdict")).toHaveText(/^2.keys\./);
  const form = page.getByRole("region", { name: "Limits of every key" });
  const field = form.getByLabel("Tokens a minute");
  await field.fill("80,000");
  await form.getByRole("button", { name: /^Save 1.change$/ }).click();
  const of = (name: RegExp) => page.getByRole("row", { name }).getByRole("cell").nth(2);
  await expect(of(/^alice/)).toHaveText("80,000 of *");
  await expect(of(/^bob/)).toHaveText("5,000");
  await field.fill("");
  await form.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(of(/^alice/)).toHaveText("not set");
});

test("declared limits are shut, and a key is named but never shown", async ({ page }) => {
  await page.goto("/keys?key=bob");
  const form = page.getByRole("region", { name: "Limits of bob" });
  await expect(form).toContainText(/declared in .*keyed\.yaml; change it there/);
  await expect(form.getByLabel("Tokens a minute")).toBeDisabled();
  await expect(form.getByLabel("Tokens a minute")).toHaveValue("5000");
  expect(await page.content()).not.toContain("sk-of-");
  await page.goto("/connect");
  await expect(page.getByText("This daemon asks for a key")).toBeVisible();
});

test("a limit out of range is refused at its field", async ({ page }) => {
  await page.goto("/keys?key=alice");
  const form = page.getByRole("region", { name: "Limits of alice" });
  await form.getByLabel("Largest request body").fill("10");
  await expect(form.getByRole("alert")).toContainText("at least 1,024");
  await expect(form.getByRole("button", { name: /^Save/ })).toBeDisabled();
});

test("limits that somebody else states appear by themselves", async ({ page, request }) => {
  await page.goto("/keys?key=alice");
  const cell = page
    .getByRole("row", { name: /^alice/ })
    .getByRole("cell")
    .first();
  await expect(cell).toHaveText("not set");
  const state = async (limits: object) => {
    const answer = await request.post("/lmwarden.v1.KeyService/UpdateKey", {
      data: { name: "alice", limits, updateMask: "maxConcurrentRequests" },
    });
    expect(answer.ok()).toBe(true);
  };
  await state({ maxConcurrentRequests: 7 });
  await expect(cell).toHaveText("7");
  await expect(page.getByLabel("Requests at once")).toHaveValue("7");
  await state({});
  await expect(cell).toHaveText("not set");
});
