/** One replica: its state, its engine's command line, its log, and what can be done to it. */

import { useEffect, useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import { api } from "../api/transport";
import type { Replica } from "../gen/lmwarden/v1/model_pb";
import { ReplicaState } from "../gen/lmwarden/v1/routing_pb";
import { ABSENT, count, dateTime } from "../lib/format";
import { modelPath } from "../lib/paths";
import { replicaWord } from "../lib/words";
import { StatePill } from "../parts/bits";
import { Confirm } from "../parts/Dialog";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { modelNamed, models } from "../store";

/** The page. */
export function ReplicaPage() {
  const { params } = useRoute();
  const model = params.name ?? "";
  const index = Number(params.index);
  useTitle(`${model} replica ${index}`);
  if (models.value === undefined) return <Skeleton />;
  const replica = modelNamed(model)?.status?.replicas.find((r) => r.index === index);
  return (
    <>
      <div class="top">
        <h1>
          <a href={modelPath(model)}>{model}</a> · replica {params.index}
        </h1>
        {replica && <StatePill {...replicaWord(replica.state)} />}
        <span class="grow" />
        {replica && <Actions replica={replica} />}
      </div>
      {replica === undefined ? (
        <p class="verdict">
          There is no such replica now. <a href={modelPath(model)}>Go to the model</a>
        </p>
      ) : (
        <>
          {(replica.message || replica.phase) && <p class="verdict">{replica.message || replica.phase}</p>}
          <Facts replica={replica} />
          <Log model={model} index={index} incarnation={replica.incarnation} />
        </>
      )}
    </>
  );
}

function Actions({ replica }: { replica: Replica }) {
  const [asking, setAsking] = useState<"restart" | "drain">();
  const target = { model: replica.model, index: replica.index };
  const name = `replica ${replica.index} of ${replica.model}`;
  const [error, setError] = useState<unknown>();
  const resume = () => api().replicas.resumeReplica(target).catch(setError);
  return (
    <>
      {error !== undefined && <Fault error={error} />}
      {replica.state === ReplicaState.DRAINING ? (
        <button type="button" onClick={resume}>
          Resume
        </button>
      ) : (
        <button type="button" onClick={() => setAsking("drain")}>
          Drain…
        </button>
      )}
      <button type="button" onClick={() => setAsking("restart")}>
        Restart…
      </button>
      {asking === "restart" && (
        <Confirm
          title={`Restart ${name}?`}
          verb="Restart"
          onClose={() => setAsking(undefined)}
          act={() => api().replicas.restartReplica(target)}
        >
          It finishes what it has, ends, and starts again with an empty cache. Its conversations find a new
          home meanwhile.
        </Confirm>
      )}
      {asking === "drain" && (
        <Confirm
          title={`Drain ${name}?`}
          verb="Drain"
          onClose={() => setAsking(undefined)}
          act={() => api().replicas.drainReplica(target)}
        >
          It finishes what it has, gets nothing new and keeps running. Its conversations find a new home.
        </Confirm>
      )}
    </>
  );
}

function Facts({ replica }: { replica: Replica }) {
  const facts: [string, string][] = [
    ["In this state since", dateTime(replica.since)],
    ["Process", replica.pid === 0 ? "none runs" : `${replica.pid}, life ${replica.incarnation}`],
    ["Address", replica.url || ABSENT],
    ["KV cache", replica.capacityTokens === undefined ? ABSENT : `${count(replica.capacityTokens)} tokens`],
    ["Engine", replica.engineVersion ? `vLLM ${replica.engineVersion}` : ABSENT],
    ["Restarts after a failure", count(replica.restarts)],
    ["Cards", replica.gpus.join(", ") || "none"],
  ];
  if (replica.lastExit !== undefined) facts.push(["Last exit code", String(replica.lastExit)]);
  return (
    <Panel title="Engine" live>
      <dl class="facts-list">
        {facts.map(([name, value]) => (
          <>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </>
        ))}
        <dt>Command</dt>
        <dd>
          <code>{replica.command.join(" ") || ABSENT}</code>
        </dd>
      </dl>
    </Panel>
  );
}

/** Most lines kept on the page. */
const LINES = 2000;

function Log({ model, index, incarnation }: { model: string; index: number; incarnation: bigint }) {
  const [lines, setLines] = useState<string[]>();
  const [error, setError] = useState<unknown>();
  const [round, setRound] = useState(0);
  // a new life has a new log, and `round` is the reader's "try again".
  useEffect(() => {
    const stop = new AbortController();
    setLines(undefined);
    setError(undefined);
    const read = async () => {
      const stream = api().replicas.streamLogs({ model, index, follow: true }, { signal: stop.signal });
      for await (const part of stream) {
        setLines((known) => [...(known ?? []), ...part.lines].slice(-LINES));
      }
    };
    read().catch((e: unknown) => {
      if (!stop.signal.aborted) setError(e);
    });
    return () => stop.abort();
  }, [model, index, incarnation, round]);
  return (
    <Panel title="Log">
      {error !== undefined && <Fault error={error} retry={() => setRound(round + 1)} />}
      {lines === undefined ? (
        error === undefined && <p class="empty">Nothing logged yet.</p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling region must be reachable by keyboard.
        <pre class="log" tabIndex={0}>
          {lines.join("\n")}
        </pre>
      )}
    </Panel>
  );
}
