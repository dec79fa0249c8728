/**
 * The two plots of the tokens chart, on uPlot: stacked bars of prompt tokens above, a
 * line of completion tokens below, one time axis and one cursor for both. Colours are
 * read from the page's variables, since a canvas does not know them.
 */
import uPlot from "uplot";
import { short } from "../lib/format";
import { type Series, timeMarks } from "./series";

/** A drawn chart. */
export interface TokensPlot {
  /** Shows other figures. */
  show(series: Series): void;
  /** Takes another width, in CSS pixels. */
  resize(width: number): void;
  destroy(): void;
}

const BARS_HEIGHT = 158;
const STRIP_HEIGHT = 80;
const AXIS_WIDTH = 46;
const FONT = "11.5px ui-sans-serif, system-ui, sans-serif";

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function valueAxis(space: number, splits?: uPlot.Axis.Splits): uPlot.Axis {
  return {
    ...(splits ? { splits } : {}),
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
    size: 28,
    gap: 10,
    splits: (_, __, min, max) => QUARTERS.map((part) => min + (max - min) * part),
    stroke: () => colour("--muted"),
    grid: { show: false },
    ticks: { show: false },
    values: (_, splits) => timeMarks(splits),
  };
}

/** Where the time axis has its marks. */
const QUARTERS = [0, 0.25, 0.5, 0.75, 1];

/** From the begin of the first bucket to the end of the last. */
const wholeBuckets: uPlot.Range.Function = (plot, min, max) => {
  const steps = (plot.data[0]?.length ?? 0) - 1;
  return [min, steps > 0 ? max + (max - min) / steps : max + 1];
};

/** Range from 0, with room above; an empty chart still has a scale. */
const fromZero: uPlot.Range.Function = (_, __, max) => [0, max > 0 ? max * 1.08 : 10];

/** A low strip has room for two marks: 0 and a round figure near the top. */
const zeroAndTop = (_: uPlot, __: number, ___: number, max: number): number[] => {
  const step = 10 ** Math.floor(Math.log10(max));
  return [0, Math.floor(max / step) * step];
};

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
    padding: [6, 14, 8, 0],
    cursor,
    scales: { x: { range: wholeBuckets }, y: { range: fromZero } },
    series: [{}, ...series],
    axes,
  };
}

/** Draws the chart into `into`; `hover` is told the bucket under the pointer. */
export function drawTokens(into: HTMLElement, hover: (index: number | undefined) => void): TokensPlot {
  const bars = uPlot.paths.bars?.({ size: [0.96, 100], align: 1 });
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
      [timeAxis(true), valueAxis(30, zeroAndTop)],
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
