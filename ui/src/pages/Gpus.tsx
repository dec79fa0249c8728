/** The cards of the box. */
import type { Gpu } from "../gen/lmwarden/v1/gpu_service_pb";
import { ABSENT, count, plural, share } from "../lib/format";
import { modelPath, replicaPath } from "../lib/paths";
import { Meter, Pill } from "../parts/bits";
import { cardName, holder, memoryShare, memoryWords } from "../parts/GpuCards";
import { Panel, Skeleton } from "../parts/Panel";
import { useTitle } from "../parts/title";
import { gpus } from "../store";

/** The page. */
export function Gpus() {
  useTitle("GPUs");
  const seen = gpus.value?.value;
  return (
    <>
      <div class="top">
        <h1>GPUs</h1>
        {seen?.cards.some((c) => c.simulated) && <Pill>simulated box</Pill>}
      </div>
      {seen && <p class="verdict">{verdict(seen.cards, seen.message)}</p>}
      <Panel title="Cards" live>
        {seen === undefined && <Skeleton />}
        {seen?.cards.length === 0 && <p class="empty">{seen.message || "This box has no GPU."}</p>}
        {seen && seen.cards.length > 0 && <Table cards={seen.cards} />}
      </Panel>
    </>
  );
}

function verdict(cards: readonly Gpu[], message: string): string {
  if (cards.length === 0) return message || "This box has no GPU that can be read.";
  const free = cards.filter((c) => c.model === "" && c.message === "").length;
  const unusable = cards.filter((c) => c.message !== "").length;
  const parts = [
    `${plural(cards.length, "card")}: ${count(cards.length - free - unusable)} held by models, ${count(free)} free`,
  ];
  if (unusable > 0) parts.push(`, ${count(unusable)} not usable`);
  return `${parts.join("")}.`;
}

function Table({ cards }: { cards: readonly Gpu[] }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th scope="col">Card</th>
            <th scope="col" class="text">
              Name
            </th>
            <th scope="col" class="text">
              Memory
            </th>
            <th scope="col">Busy</th>
            <th scope="col">Heat</th>
            <th scope="col">Power</th>
            <th scope="col" class="text">
              Held by
            </th>
            <th scope="col" class="text">
              UUID
            </th>
          </tr>
        </thead>
        <tbody>
          {cards.map((card) => (
            <tr key={card.uuid}>
              <th scope="row">GPU {card.index}</th>
              <td class="text">{cardName(card.name)}</td>
              <td class="text">
                <Meter value={memoryShare(card)} />
                {memoryWords(card)}
              </td>
              <td>{share(card.utilization, 0)}</td>
              <td>
                {card.temperatureCelsius === undefined ? ABSENT : `${count(card.temperatureCelsius)} °C`}
              </td>
              <td>{powerWords(card)}</td>
              <td class={card.message ? "text wrap" : "text"}>
                {card.message ? <small>{card.message}</small> : <Holder card={card} />}
              </td>
              <td class="text">
                <code>{card.uuid}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Holder({ card }: { card: Gpu }) {
  if (card.model === "") return <>free</>;
  const href = card.replica === undefined ? modelPath(card.model) : replicaPath(card.model, card.replica);
  return <a href={href}>{holder(card)}</a>;
}

function powerWords(card: Gpu): string {
  if (card.powerWatts === undefined) return ABSENT;
  const limit = card.powerLimitWatts === undefined ? "" : ` of ${count(card.powerLimitWatts)}`;
  return `${count(card.powerWatts)}${limit} W`;
}
