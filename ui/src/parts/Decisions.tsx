/** The latest decisions of a model, by time of arrival, newest first. */
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { useState } from "preact/hooks";
import { DecisionClass, type RequestRecord } from "../gen/lmwarden/v1/routing_pb";
import { clock, milliseconds, seconds, shortId } from "../lib/format";
import { requestPath, requestsPath } from "../lib/paths";
import { decisionWord } from "../lib/words";
import { Panel, Skeleton } from "./Panel";

/** Most lines shown. */
const SHOWN = 8;

/** The API lists requests as they end; a reader sees when they came. */
function byArrival(records: readonly RequestRecord[] | undefined): readonly RequestRecord[] | undefined {
  const arrived = (r: RequestRecord) => (r.arrived === undefined ? 0 : timestampMs(r.arrived));
  return records && [...records].sort((a, b) => arrived(b) - arrived(a));
}

/** The panel. */
export function Decisions({
  model,
  records,
}: {
  model: string;
  records: readonly RequestRecord[] | undefined;
}) {
  const { shown, hold, letGo } = useHold(byArrival(records));
  return (
    <Panel title="Latest decisions" live end={<a href={requestsPath({ model })}>all requests</a>}>
      {records === undefined && <Skeleton />}
      {records?.length === 0 && <p class="empty">No request yet.</p>}
      <ul class="feed" onMouseEnter={hold} onMouseLeave={letGo} onFocusIn={hold} onFocusOut={letGo}>
        {shown?.slice(0, SHOWN).map((record) => (
          <li key={record.id}>
            <span class="small mono">{clock(record.arrived)}</span>
            <a class="quiet" href={requestPath(record.id)}>
              {decisionWord(record.decision)}
            </a>
            <span class="small">{where(record)}</span>
            <span title="time to first token">{wait(record)}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** Keeps a list still while somebody points at it, so that no line moves away under the pointer. */
function useHold<T>(live: T): { shown: T; hold: () => void; letGo: () => void } {
  const [held, setHeld] = useState<{ list: T }>();
  return {
    shown: held === undefined ? live : held.list,
    hold: () => setHeld({ list: live }),
    letGo: () => setHeld(undefined),
  };
}

/** 5c11 turn 6 → 1, home 0 busy */
export function where(record: RequestRecord): string {
  const who = record.conversation === "" ? "no conversation" : shortId(record.conversation);
  const turn = record.turn > 0n ? ` turn ${record.turn}` : "";
  const to = record.replica === undefined ? "" : ` → ${record.replica}`;
  const left =
    record.decision === DecisionClass.SPILLED && record.home !== undefined
      ? `, home ${record.home} busy`
      : "";
  return `${who}${turn}${to}${left}`;
}

function wait(record: RequestRecord): string {
  const first = milliseconds(record.firstToken);
  if (first !== undefined) return seconds(first / 1000);
  return record.status >= 400 ? String(record.status) : "…";
}
