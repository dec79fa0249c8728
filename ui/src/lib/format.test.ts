import { create } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import {
  ABSENT,
  bigCount,
  count,
  gib,
  inWords,
  milliseconds,
  plural,
  seconds,
  share,
  short,
  span,
} from "./format";

const plain = (text: string) => text.replaceAll("\u00a0", " ");

describe("figures", () => {
  it.each([
    [count(46_080), "46,080"],
    [count(184_320n), "184,320"],
    [bigCount(1_900_000n), "1.9 million"],
    [bigCount(999_999n), "999,999"],
    [bigCount(2_300_000_000), "2.3 billion"],
    [share(0.822), "82.2 %"],
    [share(1), "100.0 %"],
    [share(0.861, 0), "86 %"],
    [seconds(0.48), "0.48 s"],
    [seconds(3.14), "3.1 s"],
    [seconds(42.4), "42 s"],
    [span(0), "0 s"],
    [span(200), "3 min 20 s"],
    [span(7200), "2 h"],
    [span(3 * 86_400 + 4 * 3_600 + 59), "3 d 4 h"],
    [span(3 * 86_400 + 12), "3 d"],
    [gib(16n * 2n ** 30n), "16"],
    [gib(13_851_269_530n), "12.9"],
    [short(45_000), "45k"],
    [short(1_500), "1.5k"],
    [short(0), "0"],
    [inWords(2), "two"],
    [inWords(0), "no"],
    [inWords(34), "34"],
    [plural(1, "replica"), "1 replica"],
    [plural(14, "conversation"), "14 conversations"],
  ])("%s is %s", (got, want) => {
    expect(plain(got)).toBe(want);
  });

  it("never shows an absent figure as 0", () => {
    for (const format of [count, bigCount, share, seconds, gib]) expect(format(undefined)).toBe(ABSENT);
  });

  it("keeps fractions of a second in a duration", () => {
    expect(milliseconds(create(DurationSchema, { seconds: 1n, nanos: 250_000_000 }))).toBe(1250);
    expect(milliseconds(undefined)).toBeUndefined();
  });
});
