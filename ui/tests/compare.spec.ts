import type { APIRequestContext } from "@playwright/test";
import { address, expect, openModel, test } from "./page";

const service = "/lmwarden.v1.RoutingService";

/** Calls the API beside the page. */
async function call(request: APIRequestContext, method: string, data: object) {
  const answer = await request.post(`${service}/${method}`, { data });
  expect(answer.ok(), await answer.text()).toBe(true);
  return answer.json();
}

let model: string;
let admission: string | undefined;

test.beforeEach(async ({ page, request }) => {
  model = await openModel(page);
  const { card } = await call(request, "GetRouting", { model });
  admission = card.settings?.admission;
});

test.afterEach(async ({ request }) => {
  // A model on which nothing was compared has nothing to stop, which is as good.
  await request.post(`${service}/StopComparison`, { data: { model } });
  await call(request, "UpdateRouting", { model, settings: { admission }, updateMask: "admission" });
});

/** Begins a conversation, so that one setting or the other has a turn to show. */
async function converse(): Promise<void> {
  const answer = await fetch(`${address("LMWARDEN_INFERENCE_URL")}/v1/chat/completions`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "x-session-id": crypto.randomUUID() },
    body: JSON.stringify({ model, max_tokens: 4, messages: [{ role: "user", content: "Hello" }] }),
  });
  expect(answer.status, await answer.text()).toBe(200);
}

test("a comparison is refused while admission chooses the replicas", async ({ page, request }) => {
  await call(request, "UpdateRouting", {
    model,
    settings: { admission: "ADMISSION_WORKING_SET" },
    updateMask: "admission",
  });
  await page.goto("/compare");
  const start = page.getByRole("region", { name: "Start a comparison" });
  await expect(start.getByText("It needs admission none")).toBeVisible();
  await start.getByRole("button", { name: "Start" }).click();
  const alert = start.getByRole("alert");
  await expect(alert).toContainText("the door then chooses the replicas");
  await expect(alert).toContainText("Set admission to none");
  await start.getByRole("link", { name: "change it in the routing settings" }).click();
  await expect(page.getByRole("heading", { level: 1, name: model })).toBeVisible();
});

test("a comparison runs on live traffic, gives a verdict, and is stopped", async ({ page }) => {
  const form = page.getByRole("region", { name: "Routing settings" });
  await form.getByLabel("Admission").selectOption("none");
  await form.getByRole("button", { name: /^Save 1.change$/ }).click();
  await expect(form.getByText("Saved.")).toBeVisible();
  await page.getByRole("link", { name: "Compare" }).click();

  const start = page.getByRole("region", { name: "Start a comparison" });
  await expect(start).toBeVisible();
  await expect(start.getByText("It needs admission")).toBeHidden();
  await start.getByLabel("Settings").selectOption("spill by count, and priced");
  await start.getByLabel("For").selectOption("60 minutes");
  await start.getByRole("button", { name: "Start" }).click();

  const result = page.getByRole("region", { name: "spill by count beside spill priced" });
  await expect(result).toContainText(/It runs until \d\d:\d\d:\d\d and ends by itself/);
  await expect(start).toBeHidden();
  await converse();
  // The page asks again by itself.
  await expect(result.getByText(/[1-9]\d*.turns?\b/)).toBeVisible({ timeout: 30_000 });
  const figures = result.getByRole("rowheader");
  await expect(figures.filter({ hasText: "first token, all turns, mean" })).toBeVisible();
  await expect(figures.filter({ hasText: "prompt from cache" })).toBeVisible();
  const verdict = page.locator(".verdict");
  await expect(verdict).toHaveText(/^(Too early to tell|No difference can be told|spill .* is better)/);

  await result.getByRole("button", { name: "Stop" }).click();
  await expect(result).toContainText("because it was stopped");
  await expect(result.getByRole("button", { name: "Stop" })).toBeHidden();
  await expect(start.getByRole("button", { name: "Start" })).toBeEnabled();
  await page.reload();
  await expect(result).toContainText("because it was stopped");
  await expect(verdict).toHaveText(/^(Too few to tell|No difference can be told|spill .* is better)/);
});
