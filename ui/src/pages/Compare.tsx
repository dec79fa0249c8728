/** Two routing settings on live traffic: start, watch, verdict. */
import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useState } from "preact/hooks";
import { api } from "../api/transport";
import { Admission } from "../gen/lmwarden/v1/routing_pb";
import type { Comparison, ComparisonArm } from "../gen/lmwarden/v1/routing_service_pb";
import { figureText, intervalText, pairs, stateText, winner } from "../lib/comparison";
import { count, plural, share } from "../lib/format";
import { modelPath } from "../lib/paths";
import { useCall } from "../parts/call";
import { Choice, ModelChoice, useFilter } from "../parts/Filters";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { modelNamed, models } from "../store";

/** How often a comparison that runs is asked for, in milliseconds. */
const POLL = 5000;

/** The page. */
export function Compare() {
  useTitle("Compare");
  const { query, set } = useFilter();
  const model = query.model ?? models.value?.value[0]?.name ?? "";
  return (
    <>
      <div class="top">
        <h1>Compare</h1>
        <span class="grow" />
        <ModelChoice value={model} set={(value) => set({ model: value })} />
      </div>
      {model === "" ? <p class="verdict">No model yet.</p> : <OfModel key={model} model={model} />}
    </>
  );
}

/** The comparison of one model, asked for again while it runs. */
function OfModel({ model }: { model: string }) {
  const call = useCall(model, async (signal) => {
    try {
      return (await api().routing.getComparison({ model }, { signal })).comparison ?? null;
    } catch (error) {
      if (ConnectError.from(error).code === Code.NotFound) return null;
      throw error;
    }
  });
  const running = call.value?.running ?? false;
  const { again } = call;
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(again, POLL);
    return () => clearInterval(timer);
  }, [running, again]);
  if (call.error !== undefined) return <Fault error={call.error} />;
  if (call.value === undefined) return <Skeleton />;
  return (
    <>
      {call.value !== null && <Result comparison={call.value} changed={again} />}
      {!running && <Start model={model} started={again} />}
    </>
  );
}

function Start({ model, started }: { model: string; started: () => void }) {
  const [pair, setPair] = useState("affinity");
  const [minutes, setMinutes] = useState("20");
  const [error, setError] = useState<unknown>();
  const admission = modelNamed(model)?.routing?.admission;
  const start = async () => {
    setError(undefined);
    const chosen = pairs.find((p) => p.id === pair) ?? pairs[0];
    try {
      await api().routing.startComparison({
        model,
        settings: chosen?.arms ?? [],
        duration: { seconds: BigInt(Number(minutes) * 60) },
        seed: BigInt(Date.now()),
      });
      started();
    } catch (e) {
      setError(e);
    }
  };
  return (
    <Panel title="Start a comparison">
      <p class="small">
        Conversations that begin are assigned at random to one of the two settings and keep it. Both share the
        same caches, so a setting that wastes them costs the other one too.
        {admission !== Admission.NONE && (
          <>
            {" "}
            It needs admission <b>none</b>, because the door would choose the replicas:{" "}
            <a href={modelPath(model)}>change it in the routing settings</a>.
          </>
        )}
      </p>
      <div class="filters">
        <Choice
          label="Settings"
          value={pair}
          choices={pairs.map((p) => ({ value: p.id, word: p.word }))}
          set={setPair}
        />
        <Choice
          label="For"
          value={minutes}
          choices={["5", "20", "60", "240"].map((m) => ({ value: m, word: `${m} minutes` }))}
          set={setMinutes}
        />
        <button type="button" onClick={start}>
          Start
        </button>
      </div>
      {error !== undefined && <Fault error={error} />}
    </Panel>
  );
}

function Result({ comparison, changed }: { comparison: Comparison; changed: () => void }) {
  const [error, setError] = useState<unknown>();
  const [a, b] = comparison.arms;
  const stop = async () => {
    setError(undefined);
    try {
      await api().routing.stopComparison({ model: comparison.model });
      changed();
    } catch (e) {
      setError(e);
    }
  };
  return (
    <>
      <p class="verdict">{comparison.verdict}</p>
      <Panel
        title={`${a?.name ?? "A"} beside ${b?.name ?? "B"}`}
        live={comparison.running}
        end={
          comparison.running && (
            <button type="button" onClick={stop}>
              Stop
            </button>
          )
        }
      >
        <p class="small">
          {stateText(comparison)} {armText(a)} {armText(b)}
        </p>
        <Figures comparison={comparison} />
        <small>{comparison.method}</small>
        {error !== undefined && <Fault error={error} />}
      </Panel>
    </>
  );
}

function armText(arm: ComparisonArm | undefined): string {
  if (arm === undefined) return "";
  const failed = arm.failed > 0 ? `, ${count(arm.failed)} without an answer` : "";
  return `${arm.name}: ${plural(arm.conversations, "conversation")}, ${count(arm.ended)} ended, ${plural(arm.turns, "turn")}${failed}.`;
}

function Figures({ comparison }: { comparison: Comparison }) {
  const [a, b] = comparison.arms;
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Figure</th>
            <th scope="col">{a?.name ?? "A"}</th>
            <th scope="col">{b?.name ?? "B"}</th>
            <th scope="col">Difference</th>
            <th scope="col">95 % interval</th>
            <th scope="col">Chance of noise</th>
          </tr>
        </thead>
        <tbody>
          {comparison.figures.map((figure) => {
            const best = winner(figure);
            const value = (arm: "a" | "b") => {
              const text = figureText(figure[arm], figure.unit);
              return best === arm ? <b>{text}</b> : text;
            };
            return (
              <tr key={figure.name}>
                <th scope="row">{figure.name}</th>
                <td>{value("a")}</td>
                <td>{value("b")}</td>
                <td>{figureText(figure.difference, figure.unit)}</td>
                <td>{intervalText(figure)}</td>
                <td>{share(figure.noise, 0)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
