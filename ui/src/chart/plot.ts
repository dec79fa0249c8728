/**
 * The two plots of the tokens chart, on uPlot: stacked bars of prompt tokens above, a
 * line of completion tokens below, one time axis and one cursor for both. Colours are
 * read from the page's variables, since a canvas does not know them.
 */
import uPlot from "uplot";
import { short } from "../lib/format";
import type { Series } from "./series";

/** A drawn chart. */
export interface TokensPlot {
  /** Shows other figures. */
  show(series: Series): void;
  /** Takes another width, in CSS pixels. */
  resize(width: number): void;
  destroy(): void;
}

const BARS_HEIGHT = 158;
const STRIP_HEIGHT = 74;
const AXIS_WIDTH = 46;
const FONT = "11.5px ui-sans-serif, system-ui, sans-serif";

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function valueAxis(space: number): uPlot.Axis {
  return {
    size: AXIS_WIDTH,
    space,
    font: FONT,
    gap: 6,
    stroke: () => colour("--muted"),
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { show: false },
    values: (_, splits) => splits.map(short),
  };
}

function timeAxis(show: boolean): uPlot.Axis {
  return {
    show,
    font: FONT,
    size: 22,
    gap: 4,
    space: 90,
    stroke: () => colour("--muted"),
    grid: { show: false },
    ticks: { show: false },
    values: (_, splits) =>
      splits.map((s) =>
        new Date(s * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" }),
      ),
  };
}

/** Range from 0, with room above; an empty chart still has a scale. */
const fromZero: uPlot.Range.Function = (_, __, max) => [0, max > 0 ? max * 1.08 : 10];

function options(
  height: number,
  cursor: uPlot.Cursor,
  series: uPlot.Series[],
  axes: uPlot.Axis[],
): uPlot.Options {
  return {
    width: 600,
    height,
    legend: { show: false },
    padding: [6, 4, 2, 0],
    cursor,
    scales: { y: { range: fromZero } },
    series: [{}, ...series],
    axes,
  };
}

/** Draws the chart into `into`; `hover` is told the bucket under the pointer. */
export function drawTokens(into: HTMLElement, hover: (index: number | undefined) => void): TokensPlot {
  const bars = uPlot.paths.bars?.({ size: [0.86, 40], align: 1 });
  const fill = (name: string) => () => colour(name);
  const sync = uPlot.sync("tokens");
  const cursor: uPlot.Cursor = {
    y: false,
    drag: { x: false, y: false },
    points: { show: false },
    sync: { key: sync.key },
  };
  const bar = (name: string): uPlot.Series => ({
    fill: fill(name),
    stroke: fill("--surface"),
    width: 1,
    points: { show: false },
    ...(bars ? { paths: bars } : {}),
  });
  // The whole prompt first, the cached part over it: what stays visible is the computed part.
  const top = new uPlot(
    options(BARS_HEIGHT, cursor, [bar("--computed"), bar("--cached")], [timeAxis(false), valueAxis(34)]),
    [[], [], []],
    into,
  );
  const strip = new uPlot(
    options(
      STRIP_HEIGHT,
      cursor,
      [{ stroke: fill("--completion"), width: 1.8, points: { show: false } }],
      [timeAxis(true), valueAxis(30)],
    ),
    [[], []],
    into,
  );
  strip.root.classList.add("strip");
  for (const plot of [top, strip]) {
    const tell = () => hover(plot.cursor.idx ?? undefined);
    plot.over.addEventListener("mousemove", tell);
    plot.over.addEventListener("mouseleave", () => hover(undefined));
  }
  return {
    show(series) {
      top.setData([series.times, series.prompt, series.cached]);
      strip.setData([series.times, series.completion]);
    },
    resize(width) {
      top.setSize({ width, height: BARS_HEIGHT });
      strip.setSize({ width, height: STRIP_HEIGHT });
    },
    destroy() {
      top.destroy();
      strip.destroy();
    },
  };
}
