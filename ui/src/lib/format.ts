/**
 * Figures as a person reads them: in the reader's own language, with a unit, and "not
 * reported" for what is absent. Spaces inside a figure do not break.
 */
import { type Duration, durationMs, type Timestamp, timestampMs } from "@bufbuild/protobuf/wkt";

/** What stands where a figure is absent. */
export const ABSENT = "not reported";

const NBSP = "\u00a0";

const formats = new Map<number, Intl.NumberFormat>();

function fixed(digits: number): Intl.NumberFormat {
  let format = formats.get(digits);
  if (format === undefined) {
    format = new Intl.NumberFormat(undefined, {
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
    formats.set(digits, format);
  }
  return format;
}

type Maybe<T> = T | undefined;

/** 46,080 */
export function count(value: Maybe<number | bigint>, digits = 0): string {
  return value === undefined ? ABSENT : fixed(digits).format(value);
}

/** 1.9 million; below a million like `count`. */
export function bigCount(value: Maybe<number | bigint>): string {
  if (value === undefined) return ABSENT;
  const n = Number(value);
  if (n >= 1e9) return `${fixed(1).format(n / 1e9)} billion`;
  if (n >= 1e6) return `${fixed(1).format(n / 1e6)} million`;
  return fixed(0).format(n);
}

/** 45k, for the axes of charts. */
export function short(value: number): string {
  if (value >= 1e6) return `${+(value / 1e6).toFixed(1)}M`;
  if (value >= 1e3) return `${+(value / 1e3).toFixed(1)}k`;
  return `${+value.toFixed(value < 10 ? 1 : 0)}`;
}

/** 82.2 %, from a share of 0 to 1. */
export function share(value: Maybe<number>, digits = 1): string {
  return value === undefined ? ABSENT : percent(value * 100, digits);
}

/** 99.1 %, from 0 to 100. */
export function percent(value: Maybe<number>, digits = 1): string {
  return value === undefined ? ABSENT : `${fixed(digits).format(value)}${NBSP}%`;
}

/** 0.48 s, 3.1 s, 42 s, 3 min 20 s, 3 d 4 h. */
export function seconds(value: Maybe<number>): string {
  if (value === undefined) return ABSENT;
  if (value < 1) return `${fixed(2).format(value)}${NBSP}s`;
  if (value < 10) return `${fixed(1).format(value)}${NBSP}s`;
  return span(value);
}

/** Whole units of a longer time, the two largest: 42 s, 3 min 20 s, 2 h, 3 d 4 h. */
export function span(value: number): string {
  const units: [number, string][] = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  let rest = Math.max(0, Math.round(value));
  const parts: string[] = [];
  for (const [size, name] of units) {
    const n = Math.floor(rest / size);
    rest -= n * size;
    if (n > 0 || (size === 1 && parts.length === 0)) parts.push(`${n}${NBSP}${name}`);
    // Only neighbours: "3 d 4 h", but "3 d" rather than "3 d 12 s".
    else if (parts.length > 0) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** 12.9 of 16 GiB needs both in one unit; this is the bare figure: 12.9. */
export function gib(bytes: Maybe<bigint>): string {
  if (bytes === undefined) return ABSENT;
  return new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 }).format(Number(bytes) / 2 ** 30);
}

/** 14:58:04, always with 24 hours. */
export function clock(time: Maybe<Timestamp>): string {
  if (time === undefined) return ABSENT;
  return new Date(timestampMs(time)).toLocaleTimeString("en-GB", { hour12: false });
}

/** 14:58, from seconds since 1970. */
export function hourMinute(time: number): string {
  return new Date(time * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** 14:58:04, of seconds since 1970 */
export function hourMinuteSecond(time: number): string {
  return new Date(time * 1000).toLocaleTimeString("en-GB");
}

/** 4 Oct 2026 09:12 */
export function dateTime(time: Maybe<Timestamp>): string {
  if (time === undefined) return ABSENT;
  const d = new Date(timestampMs(time));
  const day = d.toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
  return `${day} ${d.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
}

/** 4 Oct 2026 09:12:31 */
export function dateTimeSeconds(time: Maybe<Timestamp>): string {
  return time === undefined ? ABSENT : dateTime(time).replace(/ \S+$/, ` ${clock(time)}`);
}

/** Milliseconds of a duration; undefined stays undefined. */
export function milliseconds(value: Maybe<Duration>): Maybe<number> {
  return value === undefined ? undefined : durationMs(value);
}

/** Seconds between a time and now, never below 0. */
export function secondsSince(time: Maybe<Timestamp>, nowMs: number): Maybe<number> {
  return time === undefined ? undefined : Math.max(0, (nowMs - timestampMs(time)) / 1000);
}

/** 5c11: enough of an opaque id to tell a few dozen apart. */
export function shortId(id: string): string {
  return id.slice(0, 4);
}

const WORDS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];

/** two more, 34 more: small numbers in words, as in a sentence. */
export function inWords(value: number): string {
  return WORDS[value] ?? fixed(0).format(value);
}

/** 1 replica, 4 replicas. */
export function plural(value: number | bigint, one: string, many = `${one}s`): string {
  return `${count(value)}${NBSP}${Number(value) === 1 ? one : many}`;
}
