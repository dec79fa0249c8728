/** What happened on the box, newest first. */
import { useState } from "preact/hooks";
import { api } from "../api/transport";
import type { Event } from "../gen/lmwarden/v1/system_service_pb";
import { dateTime } from "../lib/format";
import { modelPath, replicaPath } from "../lib/paths";
import { kindWord, severityWord } from "../lib/words";
import { Pill } from "../parts/bits";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { events, mergeEvents } from "../store";

/** The page: the stream's events, and older ones on request. */
export function Events() {
  useTitle("Events");
  const [older, setOlder] = useState<Event[]>([]);
  const [next, setNext] = useState<string>();
  const [error, setError] = useState<unknown>();
  const live = events.value;
  const more = async () => {
    setError(undefined);
    try {
      const page = await api().system.listEvents({ pageSize: 100, pageToken: next ?? "" });
      setOlder([...older, ...page.events]);
      setNext(page.nextPageToken);
    } catch (e) {
      setError(e);
    }
  };
  const all = live && mergeEvents(live, older, Number.POSITIVE_INFINITY);
  return (
    <>
      <div class="top">
        <h1>Events</h1>
      </div>
      <Panel title="Newest first">
        {all === undefined && <Skeleton />}
        {all?.length === 0 && <p class="empty">Nothing has happened yet.</p>}
        {all && all.length > 0 && <Table list={all} />}
        {error !== undefined && <Fault error={error} />}
        {next !== "" && all !== undefined && all.length > 0 && (
          <button type="button" onClick={more}>
            Show older ones
          </button>
        )}
      </Panel>
    </>
  );
}

function Table({ list }: { list: readonly Event[] }) {
  return (
    <div class="scroll">
      <table class="rows">
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col" class="text">
              Kind
            </th>
            <th scope="col" class="text">
              Where
            </th>
            <th scope="col" class="text">
              What
            </th>
          </tr>
        </thead>
        <tbody>
          {list.map((event) => (
            <tr key={event.id}>
              <td>{dateTime(event.time)}</td>
              <td class="text">
                <Pill tone={severityWord(event.severity).tone} title={severityWord(event.severity).word}>
                  <b>{kindWord(event.kind)}</b>
                </Pill>
              </td>
              <td class="text">
                <Where event={event} />
              </td>
              <td class="text wrap">{event.message}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Where({ event }: { event: Event }) {
  if (event.model === "") return <small>the box</small>;
  if (event.replica === undefined) return <a href={modelPath(event.model)}>{event.model}</a>;
  return (
    <a href={replicaPath(event.model, event.replica)}>
      {event.model} · {event.replica}
    </a>
  );
}
