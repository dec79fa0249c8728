import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { LearnedSchema } from "../gen/lmwarden/v1/routing_pb";
import { learnedRows, learnedSentence } from "./Learned";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("what the router has learned", () => {
  it("shows each figure with its samples and age", () => {
    const rows = learnedRows(
      create(LearnedSchema, {
        prefillRate: { value: 3080.4, samples: 96, age: { seconds: 12n } },
        tokensPerByte: { value: 0.25, samples: 0 },
        shared: [{ tokens: 3500n, samples: 8, references: 31 }],
      }),
    );
    const found = Object.fromEntries(
      rows.map((r) => [r.name, [r.figure, r.samples, r.age].map(plain).join("|")]),
    );
    expect(found["Prompt tokens computed per second"]).toBe("3,080|96|12 s");
    expect(found["Tokens per byte of a prompt"]).toBe("0.250|a guess|-");
    expect(found["Answer, tokens"]).toBe("not reported|0|-");
    expect(found["Shared prompt, tokens"]).toBe("3,500|8|-");
  });

  it("speaks of places only while admission is on", () => {
    const off = create(LearnedSchema, { gapP95: { nanos: 640_000_000 }, ends: 1, linger: { seconds: 5n } });
    expect(plain(learnedSentence(off))).toBe(
      "Of the gaps 95 % are within 0.64 s; 1 conversation did not come back. A conversation counts as at work for 5.0 s after a turn.",
    );
    const on = create(LearnedSchema, { linger: { seconds: 5n }, keep: {}, spell: { seconds: 90n } });
    expect(plain(learnedSentence(on))).toContain("a place lasts one turn. A place may be taken");
  });
});
