import { address, expect, openModel, test } from "./page";

// Of such prompts no cache of the demo holds two, nor one beside the traffic's own
// conversations: with more of them than replicas, some wait whatever the traffic does.
const PROMPT = "read this again ".repeat(7_500);
const MORE_THAN_REPLICAS = 6;

test("who waits at the door is listed with place, time and reason", async ({ page }) => {
  const model = await openModel(page);
  const leave = new AbortController();
  const asked = Array.from({ length: MORE_THAN_REPLICAS }, async () => {
    // Who was served comes again: somebody must wait for as long as the page is looked at.
    while (!leave.signal.aborted) {
      await fetch(`${address("LMWARDEN_INFERENCE_URL")}/v1/chat/completions`, {
        method: "POST",
        signal: leave.signal,
        headers: { "Content-Type": "application/json", "x-session-id": crypto.randomUUID() },
        body: JSON.stringify({
          model,
          stream: true,
          max_tokens: 4,
          messages: [{ role: "user", content: PROMPT }],
        }),
      }).then(
        (answer) => answer.text(),
        () => undefined, // they leave when the page has been looked at
      );
    }
  });
  try {
    const door = page.getByRole("region", { name: "At the door" });
    await expect(door).toBeVisible();
    await expect(door.getByText(/^\d+.turns? waits?$/)).toBeVisible();
    const first = door.getByRole("row").nth(1);
    await expect(first.getByRole("rowheader")).toHaveText("1 · next");
    await expect(first).toContainText(/waits? (for room|until long prompts|for a replica)/);
    await expect(first.getByRole("cell").nth(2)).toHaveText(/^(\d+.min )?\d+.s$/);
    // What is shown is what leads on.
    await expect(first.getByRole("link")).toHaveAttribute(
      "href",
      /\/conversations\?model=.*&id=[0-9a-f]{16}$/,
    );
  } finally {
    leave.abort();
    await Promise.allSettled(asked);
  }
  await expect(page.getByRole("region", { name: "What each cache holds" })).toBeVisible();
});
