import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { DecisionClass, MissCause, RequestRecordSchema } from "../gen/lmwarden/v1/routing_pb";
import { sentence } from "./Request";

describe("the sentence of a request", () => {
  it("says why it went there, what came from cache, and why the rest did not", () => {
    const record = create(RequestRecordSchema, {
      decision: DecisionClass.SPILLED,
      reason: "Its home had 8 requests in flight.",
      promptTokens: 12_000n,
      cachedTokens: 3_000n,
      miss: MissCause.SPILLED,
    });
    expect(sentence(record).replaceAll("\u00a0", " ")).toBe(
      "Its home had 8 requests in flight. Of 12,000 prompt tokens 3,000 (25 %) came from cache. The rest was read anew: it went to a replica without its cache.",
    );
  });

  it("claims nothing that was not reported", () => {
    const record = create(RequestRecordSchema, { decision: DecisionClass.STICKY, promptTokens: 12_000n });
    expect(sentence(record)).toBe("Decision: sticky.");
  });

  it("ends with what went wrong", () => {
    const record = create(RequestRecordSchema, { reason: "No replica was ready.", error: "Answered 503." });
    expect(sentence(record)).toBe("No replica was ready. Answered 503.");
  });
});
