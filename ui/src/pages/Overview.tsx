/** The overview: the box in a sentence, its cards, its models, what needs a look. */
import { useState } from "preact/hooks";
import { TokensPanel } from "../chart/TokensPanel";
import { AddModel } from "../form/AddModel";
import type { Model } from "../gen/lmwarden/v1/model_pb";
import { ModelState } from "../gen/lmwarden/v1/model_pb";
import { type Event, Severity } from "../gen/lmwarden/v1/system_service_pb";
import { plural, secondsSince, span } from "../lib/format";
import { replicaPath } from "../lib/paths";
import { overviewVerdict } from "../lib/verdict";
import { kindWord, severityWord, type Word } from "../lib/words";
import { Pill, StatePill, Verdict } from "../parts/bits";
import { GpuCards } from "../parts/GpuCards";
import { ModelsTable } from "../parts/ModelsTable";
import { Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { events, gpus, info, models, now, stats } from "../store";

/** The page. */
export function Overview() {
  useTitle("");
  const [adding, setAdding] = useState(false);
  const all = models.value?.value;
  return (
    <>
      <div class="top">
        <h1>{info.value?.hostname ?? "LM Warden"}</h1>
        {all && <StatePill {...boxWord(all)} />}
        {all && <span class="small">{boxCounts(all)}</span>}
        {info.value?.simulated && <Pill>simulated box</Pill>}
        <span class="grow" />
        <button type="button" onClick={() => setAdding(true)}>
          Add a model…
        </button>
      </div>
      {all ? <Verdict pieces={overviewVerdict(all, stats.value?.value)} /> : <Skeleton />}
      <Cards />
      <Panel title="Models" live>
        {all === undefined && <Skeleton />}
        {all?.length === 0 && <p class="empty">No model yet.</p>}
        {all && all.length > 0 && <ModelsTable models={all} />}
      </Panel>
      <div class="two">
        <TokensPanel />
        <Panel title="Needs attention" end={<a href="/events">all events</a>}>
          <Attention />
        </Panel>
      </div>
      {adding && <AddModel onClose={() => setAdding(false)} />}
    </>
  );
}

function Cards() {
  const seen = gpus.value?.value;
  if (seen === undefined) return null;
  if (seen.cards.length === 0) return <p class="empty">{seen.message || "This box has no GPU."}</p>;
  return <GpuCards cards={seen.cards} />;
}

/** The box in a word. */
export function boxWord(all: readonly Model[]): Word {
  const states = all.filter((m) => m.running).map((m) => m.status?.state);
  if (states.length === 0) return { word: "idle", tone: "off" };
  if (states.includes(ModelState.FAILED)) return { word: "needs a look", tone: "bad" };
  if (states.includes(ModelState.DEGRADED)) return { word: "degraded", tone: "warn" };
  if (states.every((state) => state !== ModelState.READY)) return { word: "starting", tone: "warn" };
  return { word: "serving", tone: "good" };
}

function boxCounts(all: readonly Model[]): string {
  const running = all.filter((m) => m.running);
  const replicas = running.reduce((n, m) => n + (m.status?.replicas.length ?? 0), 0);
  const active = running.reduce((n, m) => n + (m.status?.activeConversations ?? 0), 0);
  return [plural(running.length, "model"), plural(replicas, "replica"), plural(active, "conversation")].join(
    " · ",
  );
}

/** Most troubles and most notes shown; the rest is on the events page. */
const TROUBLES = 6;
const NOTES = 3;

/** Kinds of trouble that end by themselves, and the kind of the event that says so. */
const ENDS: Readonly<Record<string, string>> = { cache_thrash: "cache_fits", door_crowded: "door_calm" };

/** True when a newer event says that it is over: of the same replica, or of the whole model. */
function isOver(event: Event, newer: readonly Event[]): boolean {
  const end = ENDS[event.kind];
  return (
    end !== undefined &&
    newer.some(
      (e) =>
        e.kind === end && e.model === event.model && (e.replica === undefined || e.replica === event.replica),
    )
  );
}

/** What needs a look, newest first, and after it the latest notes. */
export function attentionOf(all: readonly Event[]): { troubles: Event[]; notes: Event[] } {
  return {
    troubles: all
      .filter((e, i) => e.severity >= Severity.WARNING && !isOver(e, all.slice(0, i)))
      .slice(0, TROUBLES),
    notes: all.filter((e) => e.severity < Severity.WARNING).slice(0, NOTES),
  };
}

function ago(event: Event): string {
  const seconds = secondsSince(event.time, now.value);
  return seconds === undefined ? "" : `${span(seconds)} ago`;
}

function Attention() {
  const all = events.value;
  if (all === undefined) return <Skeleton />;
  const { troubles, notes } = attentionOf(all);
  return (
    <ul class="attention">
      {troubles.length === 0 && (
        <li class="empty">Nothing needs attention.{notes.length > 0 && " The latest notes:"}</li>
      )}
      {[...troubles, ...notes].map((event) => (
        <li key={event.id}>
          <Pill tone={severityWord(event.severity).tone}>
            <b>{event.severity < Severity.WARNING ? "note" : kindWord(event.kind)}</b>
          </Pill>{" "}
          {event.message} <small>{ago(event)}</small>
          {event.replica !== undefined && (
            <>
              {" "}
              <a href={replicaPath(event.model, event.replica)}>Log</a>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
