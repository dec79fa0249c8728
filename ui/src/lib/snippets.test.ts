import { expect, it } from "vitest";
import { reachable, snippets } from "./snippets";

it("puts the real address and model into every recipe", () => {
  for (const { client, text } of snippets("http://127.0.0.1:8000/", "qwen3-4b")) {
    expect(text, client).toMatch(/http:\/\/127\.0\.0\.1:8000(\/v1)?["\n]/);
    expect(text, client).toContain("qwen3-4b");
  }
});

it.each([
  ["http://0.0.0.0:8000", "http://box-a:8000"],
  ["http://[::]:8000", "http://box-a:8000"],
  ["https://llm.example:443", "https://llm.example"],
])("reaches %s as %s", (base, want) => {
  expect(reachable(base, "box-a")).toBe(want);
});
