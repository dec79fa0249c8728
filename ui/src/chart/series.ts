/** A throughput as the columns that the chart draws, and as a sentence. Pure. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { Throughput } from "../gen/lmwarden/v1/stats_service_pb";
import { count, hourMinute, hourMinuteSecond, share } from "../lib/format";

/** Columns of equal length, oldest first. */
export interface Series {
  /** Begin of each bucket, in seconds since 1970. */
  times: number[];
  cached: number[];
  /** Cached and computed together: the height of the stacked bar. */
  prompt: number[];
  completion: number[];
}

/** Returns the columns of a throughput. */
export function seriesOf(throughput: Throughput): Series {
  const series: Series = { times: [], cached: [], prompt: [], completion: [] };
  for (const bucket of throughput.buckets) {
    if (bucket.start === undefined) continue;
    series.times.push(timestampMs(bucket.start) / 1000);
    series.cached.push(bucket.cachedPerSecond);
    series.prompt.push(bucket.cachedPerSecond + bucket.computedPerSecond);
    series.completion.push(bucket.completionPerSecond);
  }
  return series;
}

/** Seconds of a chart below which a minute is too coarse for the marks of its axis. */
const SHORT_CHART = 1800;

/** The words at the marks of the time axis, oldest first; the last mark is now. */
export function timeMarks(marks: readonly number[]): string[] {
  const last = marks.length - 1;
  const span = (marks[last] ?? 0) - (marks[0] ?? 0);
  const words = span < SHORT_CHART ? hourMinuteSecond : hourMinute;
  return marks.map((mark, i) => (i === last ? "now" : words(mark)));
}

/** Says one bucket in words, for the line under the chart. */
export function bucketWords(series: Series, index: number): string {
  const time = series.times[index];
  if (time === undefined) return "";
  const cached = series.cached[index] ?? 0;
  const computed = (series.prompt[index] ?? 0) - cached;
  return `${hourMinute(time)}: ${count(cached)} cached, ${count(computed)} computed, ${count(series.completion[index])} completion tokens/s`;
}

/** Says the whole chart in a sentence, for those who do not see it. */
export function chartWords(throughput: Throughput): string {
  const series = seriesOf(throughput);
  const last = series.times.length - 1;
  const hits =
    throughput.hitRateHour === undefined
      ? ""
      : ` Cache hit ${share(throughput.hitRateHour, 0)} over the last hour.`;
  const latest = last < 0 ? "" : ` Latest, ${bucketWords(series, last)}.`;
  return `Prompt tokens a second, cached and computed, and completion tokens a second, over the last hour.${hits}${latest}`;
}

/** True when nothing was counted in the whole span. */
export function isQuiet(throughput: Throughput): boolean {
  return throughput.buckets.every(
    (b) => b.cachedPerSecond + b.computedPerSecond + b.completionPerSecond === 0,
  );
}
