/** Who waits at the door below the map: in which place, for how long, and for what. */
import type { HeldRequest, RoutingCard } from "../gen/lmwarden/v1/routing_pb";
import { count, plural, secondsSince, shortId, span } from "../lib/format";
import { conversationPath } from "../lib/paths";
import { useFold } from "../parts/Fold";
import { now } from "../store";

/** Most places shown before the rest folds. */
const SHOWN = 6;

/** The door; nothing while nobody waits and nobody has waited for long. */
export function Door({ card, at }: { card: RoutingCard; at: number }) {
  const lacks = card.door?.message ?? "";
  if (card.held === 0 && lacks === "") return null;
  return (
    <section class="door" aria-label="At the door">
      {card.held > 0 && <Queue card={card} at={at} />}
      {lacks !== "" && <p class="small lacks">{lacks}</p>}
    </section>
  );
}

function Queue({ card, at }: { card: RoutingCard; at: number }) {
  const { shown, more } = useFold(card.queue, SHOWN);
  const unseen = card.held - card.queue.length;
  return (
    <>
      <div class="at">
        <span class="small">at the door</span>
        <b>
          {plural(card.held, "turn")} {card.held === 1 ? "waits" : "wait"}
        </b>
        <span class="grow" />
        <small>Each goes in from the top when it fits. Turns of those inside do not wait for room.</small>
      </div>
      <div class="scroll">
        <table class="rows">
          <thead>
            <tr>
              <th scope="col">Place</th>
              <th scope="col" class="text">
                Conversation
              </th>
              <th scope="col">Tokens</th>
              <th scope="col">Waited</th>
              <th scope="col" class="text">
                Why
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((held) => (
              <Waiting key={`${held.conversation} ${held.position}`} held={held} model={card.model} at={at} />
            ))}
          </tbody>
        </table>
      </div>
      {more}
      {unseen > 0 && <small>{plural(unseen, "turn")} more after these.</small>}
    </>
  );
}

function Waiting({ held, model, at }: { held: HeldRequest; model: string; at: number }) {
  const waited = secondsSince(held.arrived, Math.max(now.value, at)) ?? 0;
  return (
    <tr>
      <th scope="row">
        {count(held.position)}
        {held.position === 1 ? " · next" : ""}
      </th>
      <td class="text">
        {held.conversation === "" ? (
          "none told"
        ) : (
          <a class="mono" href={conversationPath(model, held.conversation)}>
            {shortId(held.conversation)}
          </a>
        )}
      </td>
      <td>
        {count(held.tokens)}
        <span class="unit"> tokens</span>
      </td>
      <td>{span(waited)}</td>
      <td class="text wrap">{held.reason}</td>
    </tr>
  );
}
