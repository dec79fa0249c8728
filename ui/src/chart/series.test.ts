import { create } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { ThroughputSchema } from "../gen/lmwarden/v1/stats_service_pb";
import { bucketWords, chartWords, isQuiet, seriesOf } from "./series";

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
