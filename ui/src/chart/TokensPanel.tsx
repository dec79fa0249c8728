/** Tokens per second: cached and computed prompt tokens, completion tokens, one hour. */
import { useEffect, useRef, useState } from "preact/hooks";
import "uplot/dist/uPlot.min.css";
import type { Throughput } from "../gen/lmwarden/v1/stats_service_pb";
import { share } from "../lib/format";
import { Pill } from "../parts/bits";
import { Panel, Skeleton } from "../parts/Panel";
import { stats } from "../store";
import { theme } from "../theme";
import { drawTokens, type TokensPlot } from "./plot";
import { bucketWords, chartWords, isQuiet, seriesOf } from "./series";

/** The panel with the chart. */
export function TokensPanel() {
  const throughput = stats.value?.value;
  return (
    <Panel
      title="Tokens per second"
      live
      end={
        throughput?.hitRateHour !== undefined && (
          <Pill>
            cache hit <b>{share(throughput.hitRateHour, 0)}</b> over the last hour
          </Pill>
        )
      }
    >
      {throughput === undefined ? <Skeleton /> : <Chart throughput={throughput} />}
    </Panel>
  );
}

function Chart({ throughput }: { throughput: Throughput }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<TokensPlot>(undefined);
  const [under, setUnder] = useState<number>();
  const look = theme.value;

  // a canvas keeps its colours, so another theme needs another drawing.
  useEffect(() => {
    const into = box.current;
    if (into === null) return;
    const drawn = drawTokens(into, setUnder);
    plot.current = drawn;
    drawn.show(seriesOf(throughput));
    const watcher = new ResizeObserver(() => drawn.resize(into.clientWidth));
    watcher.observe(into);
    return () => {
      watcher.disconnect();
      drawn.destroy();
    };
  }, [look]);

  useEffect(() => {
    plot.current?.show(seriesOf(throughput));
  }, [throughput]);

  const words = under === undefined ? "" : bucketWords(seriesOf(throughput), under);
  return (
    <>
      <div ref={box} class="chart" role="img" aria-label={chartWords(throughput)} />
      <div class="legend">
        <span>
          <i class="swatch-cached" />
          prompt, cached (the engine's count)
        </span>
        <span>
          <i class="swatch-computed" />
          prompt, computed
        </span>
        <span>
          <i class="swatch-completion" />
          completion
        </span>
      </div>
      <div class="small under" aria-hidden="true">
        {words || (isQuiet(throughput) ? "No request in the last hour." : "")}
      </div>
    </>
  );
}
