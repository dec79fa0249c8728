/** What can be compared side by side, and how a figure is written. Pure. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { PlacementPolicy, type RoutingSettingsSchema, SpillRule } from "../gen/lmwarden/v1/routing_pb";
import type { Comparison, ComparisonFigure } from "../gen/lmwarden/v1/routing_service_pb";
import { ABSENT, clock, count, seconds, share } from "./format";

type Settings = MessageInitShape<typeof RoutingSettingsSchema>;

/** A pair of settings that a page offers. */
export interface Pair {
  id: string;
  word: string;
  arms: [{ name: string; settings: Settings }, { name: string; settings: Settings }];
}

/** The pairs on offer; the command line can compare any. */
export const pairs: readonly Pair[] = [
  {
    id: "affinity",
    word: "affinity on, and off",
    arms: [
      { name: "affinity on", settings: { affinity: true } },
      { name: "affinity off", settings: { affinity: false } },
    ],
  },
  {
    id: "spill",
    word: "spill by count, and priced",
    arms: [
      { name: "spill by count", settings: { spill: SpillRule.COUNT } },
      { name: "spill priced", settings: { spill: SpillRule.PRICED } },
    ],
  },
  {
    id: "threshold",
    word: "spill threshold 4, and 16",
    arms: [
      { name: "threshold 4", settings: { spillThreshold: 4 } },
      { name: "threshold 16", settings: { spillThreshold: 16 } },
    ],
  },
  {
    id: "policy",
    word: "placement by load, and by hash",
    arms: [
      { name: "least loaded", settings: { policy: PlacementPolicy.LEAST_LOADED } },
      { name: "hash", settings: { policy: PlacementPolicy.HASH } },
    ],
  },
];

/** Writes a value of a figure in its unit; without one it is a share. */
export function figureText(value: number | undefined, unit: string): string {
  if (value === undefined) return ABSENT;
  const sign = value < 0 ? "−" : "";
  const size = Math.abs(value);
  if (unit === "") return sign + share(size);
  if (unit === "s") return sign + seconds(size);
  return `${sign}${count(size)}\u00a0${unit}`;
}

/** Writes the interval of a difference. */
export function intervalText(figure: ComparisonFigure): string {
  if (figure.low === undefined || figure.high === undefined) {
    return figure.difference === undefined ? ABSENT : "too few";
  }
  return `${figureText(figure.low, figure.unit)} to ${figureText(figure.high, figure.unit)}`;
}

/** Which arm a figure speaks for: "a", "b", or neither when 0 is in the interval. */
export function winner(figure: ComparisonFigure): "a" | "b" | undefined {
  const { low, high, higherIsBetter } = figure;
  if (low === undefined || high === undefined || (low <= 0 && high >= 0)) return undefined;
  return low > 0 === higherIsBetter ? "b" : "a";
}

/** Says how a comparison stands. */
export function stateText(comparison: Comparison): string {
  const at = clock(comparison.ends);
  if (comparison.running) return `It runs until ${at} and ends by itself.`;
  return comparison.message === ""
    ? `It ended at ${at}.`
    : `It ended at ${at}, because ${comparison.message}.`;
}
