/** The decision record of one request: why this replica, why this wait, why this miss. */
import { useRoute } from "preact-iso";
import { api } from "../api/transport";
import type { RequestRecord, ScoreTerms } from "../gen/lmwarden/v1/routing_pb";
import { ABSENT, clock, count, dateTimeSeconds, milliseconds, seconds, share, shortId } from "../lib/format";
import { conversationPath, modelPath } from "../lib/paths";
import { decisionWord, missWord } from "../lib/words";
import { Pill } from "../parts/bits";
import { useCall } from "../parts/call";
import { Fault, Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";

/** The page. */
export function RequestPage() {
  const id = useRoute().params.id ?? "";
  useTitle(`Request ${id}`);
  const call = useCall(id, (signal) => api().routing.explainRequest({ id }, { signal }));
  const record = call.value?.record;
  return (
    <>
      <div class="top">
        <h1>Request {record ? clock(record.arrived) : ""}</h1>
        <code>{id}</code>
        {record && (
          <Pill tone={record.status >= 400 ? "bad" : undefined}>{decisionWord(record.decision)}</Pill>
        )}
      </div>
      {call.error !== undefined && <Fault error={call.error} retry={call.again} />}
      {record === undefined && call.error === undefined && <Skeleton />}
      {record && <Record record={record} />}
    </>
  );
}

function Record({ record }: { record: RequestRecord }) {
  return (
    <>
      <p class="verdict">{sentence(record)}</p>
      {record.terms.length > 0 && <Terms record={record} />}
      <Facts record={record} />
    </>
  );
}

/** The record in a sentence or two: why there, and what the cache gave. */
export function sentence(record: RequestRecord): string {
  const parts = [record.reason || `Decision: ${decisionWord(record.decision)}.`];
  const { promptTokens: prompt, cachedTokens: cached } = record;
  if (prompt !== undefined && cached !== undefined && prompt > 0n) {
    parts.push(
      `Of ${count(prompt)} prompt tokens ${count(cached)} (${share(Number(cached) / Number(prompt), 0)}) came from cache.`,
    );
  }
  const miss = missWord(record.miss);
  if (miss !== undefined) parts.push(`The rest was read anew: ${miss}.`);
  if (record.error !== "") parts.push(record.error);
  return parts.join(" ");
}

function Terms({ record }: { record: RequestRecord }) {
  const priced = record.terms.some((t) => t.priceSeconds !== undefined);
  return (
    <Panel
      title="Why this replica"
      end={
        <small>
          {record.byAdmission
            ? "score = predicted seconds to the first token there; the lowest with room wins"
            : "score = in flight + 8 × fill + conversations at work; the lowest wins"}
        </small>
      }
    >
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">Replica</th>
              <th scope="col">In flight</th>
              <th scope="col">Cache fill</th>
              <th scope="col">Conversations at work</th>
              {priced && <th scope="col">Predicted wait</th>}
              <th scope="col">Score</th>
              <th scope="col" class="text">
                Outcome
              </th>
            </tr>
          </thead>
          <tbody>
            {record.terms.map((terms) => (
              <tr key={terms.replica}>
                <th scope="row">{terms.replica}</th>
                <td>{count(terms.inFlight)}</td>
                <td class={terms.fill === undefined ? "absent" : ""}>{share(terms.fill)}</td>
                <td>{count(terms.liveConversations)}</td>
                {priced && <td>{seconds(terms.priceSeconds)}</td>}
                <td>{count(terms.score, 2)}</td>
                <td class="text">{outcome(record, terms)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Panel>
  );
}

function outcome(record: RequestRecord, terms: ScoreTerms): string {
  if (record.replica === terms.replica) return "chosen";
  return terms.eligible ? "" : "could not take it";
}

function Facts({ record }: { record: RequestRecord }) {
  const time = (value: RequestRecord["duration"]) => {
    const ms = milliseconds(value);
    return ms === undefined ? ABSENT : seconds(ms / 1000);
  };
  const asked =
    record.requestedModel !== "" && record.requestedModel !== record.model
      ? `, asked for as ${record.requestedModel}`
      : "";
  return (
    <Panel title="Record">
      <dl class="facts-list">
        <dt>Arrived</dt>
        <dd>{dateTimeSeconds(record.arrived)}</dd>
        <dt>Model</dt>
        <dd>
          <a href={modelPath(record.model)}>{record.model}</a>
          {asked}
        </dd>
        <dt>Call</dt>
        <dd>
          <code>{record.path}</code>
          {record.streamed ? ", streamed" : ""}
          {record.client ? `, from ${record.client}` : ""}
        </dd>
        <dt>Conversation</dt>
        <dd>
          {record.conversation === "" ? (
            "none could be told"
          ) : (
            <>
              <a href={conversationPath(record.model, record.conversation)}>
                <code>{shortId(record.conversation)}</code>
              </a>
              , turn {count(record.turn)}, told by {record.keySource}
            </>
          )}
        </dd>
        <dt>Home and replica</dt>
        <dd>
          home {record.home ?? "none"}, went to {record.replica ?? "none"}
        </dd>
        <dt>Waited at the door</dt>
        <dd>{milliseconds(record.held) ? time(record.held) : "not at all"}</dd>
        <dt>First token</dt>
        <dd>{time(record.firstToken)}</dd>
        <dt>Whole</dt>
        <dd>{record.duration === undefined ? "still running" : time(record.duration)}</dd>
        <dt>Tokens</dt>
        <dd>
          prompt {count(record.promptTokens)}, cached {count(record.cachedTokens)}, completion{" "}
          {count(record.completionTokens)}
        </dd>
        <dt>Status</dt>
        <dd>
          {record.status === 0 ? "not answered yet" : record.status}
          {record.attempts > 1 ? `, after ${record.attempts} attempts` : ""}
        </dd>
      </dl>
    </Panel>
  );
}
