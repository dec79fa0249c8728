import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ThroughputSchema } from "../gen/lmwarden/v1/stats_service_pb";
import { bucketWords, chartWords, isQuiet, seriesOf, timeMarks } from "./series";

const throughput = create(ThroughputSchema, {
  hitRateHour: 0.78,
  buckets: [
    { start: { seconds: 60n }, cachedPerSecond: 30_000, computedPerSecond: 8_000, completionPerSecond: 310 },
    { start: { seconds: 120n }, cachedPerSecond: 0, computedPerSecond: 12.4, completionPerSecond: 0 },
  ],
});

it("stacks computed tokens on cached ones", () => {
  expect(seriesOf(throughput)).toEqual({
    times: [60, 120],
    cached: [30_000, 0],
    prompt: [38_000, 12.4],
    completion: [310, 0],
  });
});

it("says a bucket and the chart in words", () => {
  expect(bucketWords(seriesOf(throughput), 0)).toMatch(
    /^\d\d:\d\d: 30,000 cached, 8,000 computed, 310 completion tokens\/s$/,
  );
  expect(bucketWords(seriesOf(throughput), 7)).toBe("");
  expect(chartWords(throughput).replaceAll("\u00a0", " ")).toContain("Cache hit 78 % over the last hour.");
});

it("knows a quiet hour", () => {
  expect(isQuiet(throughput)).toBe(false);
  expect(isQuiet(create(ThroughputSchema, { buckets: [{ start: { seconds: 60n } }] }))).toBe(true);
});

it("marks a short chart to the second and a long one to the minute", () => {
  const noon = new Date(2026, 9, 4, 12, 0, 0).getTime() / 1000;
  expect(timeMarks([noon, noon + 75, noon + 150, noon + 300])).toEqual([
    "12:00:00",
    "12:01:15",
    "12:02:30",
    "now",
  ]);
  expect(timeMarks([noon, noon + 900, noon + 3600])).toEqual(["12:00", "12:15", "now"]);
});
