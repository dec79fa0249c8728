/** Requests of the history, one row each. */
import type { RequestRecord } from "../gen/lmwarden/v1/routing_pb";
import { ABSENT, clock, count, milliseconds, seconds, shortId } from "../lib/format";
import { conversationPath, requestPath } from "../lib/paths";
import { decisionWord } from "../lib/words";

/** The table; it scrolls inside its panel. */
export function RequestsTable({ records }: { records: readonly RequestRecord[] }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Arrived</th>
            <th scope="col" class="text">
              Decision
            </th>
            <th scope="col" class="text">
              Conversation
            </th>
            <th scope="col">Turn</th>
            <th scope="col">Replica</th>
            <th scope="col">Prompt</th>
            <th scope="col">Cached</th>
            <th scope="col">Completion</th>
            <th scope="col">First token</th>
            <th scope="col">Whole</th>
            <th scope="col">Status</th>
          </tr>
        </thead>
        <tbody>
          {records.map((record) => (
            <Row key={record.id} record={record} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ record }: { record: RequestRecord }) {
  return (
    <tr>
      <th scope="row">
        <a href={requestPath(record.id)} class="mono" aria-label={`request at ${clock(record.arrived)}`}>
          {clock(record.arrived)}
        </a>
      </th>
      <td class="text">{decisionWord(record.decision)}</td>
      <td class="text">
        {record.conversation === "" ? (
          <span class="small">none</span>
        ) : (
          <a href={conversationPath(record.model, record.conversation)}>
            <code>{shortId(record.conversation)}</code>
          </a>
        )}
      </td>
      <td>{record.turn > 0n ? count(record.turn) : "-"}</td>
      <td>{record.replica ?? "-"}</td>
      <Figure text={count(record.promptTokens)} />
      <Figure text={count(record.cachedTokens)} />
      <Figure text={count(record.completionTokens)} />
      <td>{timeOf(record.firstToken)}</td>
      <td>{record.duration === undefined ? "running" : timeOf(record.duration)}</td>
      <td title={record.error}>{record.status === 0 ? "-" : record.status}</td>
    </tr>
  );
}

function Figure({ text }: { text: string }) {
  return <td class={text === ABSENT ? "absent" : ""}>{text}</td>;
}

function timeOf(value: RequestRecord["duration"]): string {
  const ms = milliseconds(value);
  return ms === undefined ? "-" : seconds(ms / 1000);
}
