import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ComparisonFigureSchema, ComparisonSchema } from "../gen/lmwarden/v1/routing_service_pb";
import { figureText, intervalText, stateText, winner } from "./comparison";

const plain = (text: string) => text.replaceAll("\u00a0", " ");
const figure = (more: object) => create(ComparisonFigureSchema, more);

describe("a comparison", () => {
  it("writes figures in their units", () => {
    expect(plain(figureText(-0.25, "s"))).toBe("−0.25 s");
    expect(plain(figureText(0.861, ""))).toBe("86.1 %");
    expect(plain(figureText(1234.4, "tokens/min"))).toBe("1,234 tokens/min");
    expect(figureText(undefined, "s")).toBe("not reported");
    expect(plain(intervalText(figure({ unit: "s", low: -0.5, high: 1.5 })))).toBe("−0.50 s to 1.5 s");
    expect(intervalText(figure({ unit: "s", low: 1 }))).toBe("not reported");
    expect(intervalText(figure({ unit: "s", a: 1, b: 2, difference: 1 }))).toBe("too few");
  });

  it.each([
    [{ low: 0.5, high: 1.2 }, "a"],
    [{ low: -1.2, high: -0.5 }, "b"],
    [{ low: -1, high: 1 }, undefined],
    [{ low: 0.1, high: 0.2, higherIsBetter: true }, "b"],
    [{ low: -0.2, high: -0.1, higherIsBetter: true }, "a"],
    [{}, undefined],
  ])("knows whom %j speaks for", (more, want) => {
    expect(winner(figure(more))).toBe(want);
  });

  it("says how it stands", () => {
    const ends = { seconds: 0n };
    expect(stateText(create(ComparisonSchema, { running: true, ends }))).toContain("ends by itself");
    expect(stateText(create(ComparisonSchema, { ends, message: "it was stopped" }))).toMatch(
      /because it was stopped\.$/,
    );
  });
});
