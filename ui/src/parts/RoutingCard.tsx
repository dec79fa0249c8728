/** The data-parallel routing card: pills, one row a replica, since when it counts. */
import type { RoutingCard, RoutingReplica } from "../gen/lmwarden/v1/routing_pb";
import { Admission, ReplicaState } from "../gen/lmwarden/v1/routing_pb";
import { ABSENT, count, dateTime, milliseconds, percent, plural, share, span } from "../lib/format";
import { replicaPath } from "../lib/paths";
import { replicaWord } from "../lib/words";
import { modelNamed, now, STALE } from "../store";
import { Dot, Meter, Pill } from "./bits";
import { useFold } from "./Fold";
import { Panel } from "./Panel";

/** The panel; `at` is when the page received the card. */
export function RoutingCardPanel({ card, at }: { card: RoutingCard; at: number }) {
  const waited = Math.max(0, now.value - at);
  const { shown, more } = useFold(card.replicas);
  return (
    <Panel title="Data-parallel routing" live end={<Pills card={card} />}>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              {columns.map((column) => (
                <th key={column} scope="col">
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((replica) => (
              <Row key={replica.index} model={card.model} replica={replica} waited={waited} />
            ))}
          </tbody>
        </table>
      </div>
      {more}
      <Troubles card={card} />
      {card.admissionMessage !== "" && <p class="small">{card.admissionMessage}</p>}
      <small>
        Counters since the warden started, {dateTime(card.countersSince)}. {ageWords(card, waited)}
      </small>
    </Panel>
  );
}

const columns = [
  "Replica",
  "In flight",
  "Sticky",
  "Spilled in",
  "Placed",
  "Rehomed",
  "Client-pinned",
  "Balanced",
  "Running / waiting",
  "KV used",
  "Prefix hits",
];

function Pills({ card }: { card: RoutingCard }) {
  const oldest = milliseconds(card.oldestHeld);
  return (
    <>
      <Pill tone={card.affinity ? "good" : undefined}>
        <Dot word={card.affinity ? "on" : "off"} tone={card.affinity ? "good" : "off"} silent />
        <span>
          Affinity <b>{card.affinity ? "on" : "off"}</b>
        </span>
      </Pill>
      <Pill>
        <span>
          Spill threshold{" "}
          <b>
            {count(card.spillThreshold)}
            {card.spillThresholdAuto ? " (auto)" : ""}
          </b>
          {keepsPlaces(card) ? ", not while admission works" : ""}
        </span>
      </Pill>
      <Pill title="sticky / (sticky + spilled + rehomed)">
        <span>
          Sticky <b>{card.stickyPercent === undefined ? "-" : percent(card.stickyPercent)}</b>
        </span>
      </Pill>
      <Pill>
        <span>
          In flight <b>{count(card.inFlight)}</b>
        </span>
      </Pill>
      <Pill title="working set: only what the caches hold is let in; none: every request goes at once">
        <span>
          Admission <b>{admissionWords(card)}</b>
        </span>
      </Pill>
      <Pill>
        <span>
          Held{" "}
          <b>
            {count(card.held)}
            {oldest === undefined ? "" : `, ${span(oldest / 1000)}`}
          </b>
        </span>
      </Pill>
    </>
  );
}

/** Whether admission decides where turns go, so that none leaves its home by the threshold. */
function keepsPlaces(card: RoutingCard): boolean {
  return card.affinity && card.admission === Admission.WORKING_SET && card.admissionMessage === "";
}

/** The admission in force and, where it works, how many places it keeps. */
export function admissionWords(card: RoutingCard): string {
  if (card.admission !== Admission.WORKING_SET) return "none";
  return card.admissionMessage === ""
    ? `working set, ${plural(card.admittedConversations, "place")}`
    : "working set, not yet";
}

/** Age of a replica's engine figures now, in milliseconds; undefined before the first. */
export function metricsAge(replica: RoutingReplica, waited: number): number | undefined {
  const age = milliseconds(replica.metricsAge);
  return age === undefined ? undefined : age + waited;
}

function Row({ model, replica, waited }: { model: string; replica: RoutingReplica; waited: number }) {
  const age = metricsAge(replica, waited);
  const engine = age !== undefined && age > STALE ? "old" : "";
  const counts = replica.counts;
  const state = replicaWord(replica.state);
  return (
    <tr>
      <th scope="row">
        <Dot {...state} />
        &ensp;
        <a
          class="quiet"
          href={replicaPath(model, replica.index)}
          aria-label={`replica ${replica.index}, ${state.word}`}
        >
          {replica.index}
        </a>
      </th>
      <td>{count(replica.inFlight)}</td>
      <td>{count(counts?.sticky ?? 0n)}</td>
      <td>{count(counts?.spilled ?? 0n)}</td>
      <td>{count(counts?.placed ?? 0n)}</td>
      <td>{count(counts?.rehomed ?? 0n)}</td>
      <td>{count(counts?.clientPinned ?? 0n)}</td>
      <td>{count(balanced(counts))}</td>
      <td class={engine}>{queueWords(replica)}</td>
      <td class={engine}>{share(replica.kvUsed, 0)}</td>
      <td class={engine}>
        {replica.prefixHitRate !== undefined && <Meter value={replica.prefixHitRate} />}
        {share(replica.prefixHitRate)}
      </td>
    </tr>
  );
}

/** Requests that no home drew: affinity off, no conversation told, or a side call. */
function balanced(counts: RoutingReplica["counts"]): bigint {
  return counts === undefined ? 0n : counts.off + counts.unkeyed + counts.side;
}

function queueWords(replica: RoutingReplica): string {
  if (replica.running === undefined && replica.waiting === undefined) return ABSENT;
  return `${replica.running === undefined ? "-" : count(replica.running)} / ${replica.waiting === undefined ? "-" : count(replica.waiting)}`;
}

/** What the replicas that are not ready say, each in its own sentence. */
function Troubles({ card }: { card: RoutingCard }) {
  const replicas = modelNamed(card.model)?.status?.replicas ?? [];
  const troubled = replicas.filter((r) => r.state !== ReplicaState.READY && (r.message || r.phase));
  return (
    <>
      {troubled.map((replica) => (
        <p key={replica.index} class="small trouble">
          Replica {replica.index}, {replicaWord(replica.state).word}: {replica.message || replica.phase}{" "}
          <a href={replicaPath(card.model, replica.index)}>Log</a>
        </p>
      ))}
    </>
  );
}

/** Says how old the engines' figures are: the oldest counts. */
export function ageWords(card: RoutingCard, waited: number): string {
  const ages = card.replicas.map((r) => metricsAge(r, waited));
  const known = ages.filter((age) => age !== undefined);
  if (known.length === 0) return "Engine figures not reported.";
  return `Engine figures ${span(Math.max(...known) / 1000)} old.`;
}
