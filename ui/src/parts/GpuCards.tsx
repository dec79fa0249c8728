/** The cards of the box, one tile each. */
import type { Gpu } from "../gen/lmwarden/v1/gpu_service_pb";
import { ABSENT, count, gib } from "../lib/format";
import { useFold } from "./Fold";

/** A tile per card. */
export function GpuCards({ cards }: { cards: readonly Gpu[] }) {
  const { shown, more } = useFold(cards);
  return (
    <>
      <div class="cards">
        {shown.map((card) => (
          <GpuCard key={card.uuid} card={card} />
        ))}
      </div>
      {more}
    </>
  );
}

/** The short name of a card: the maker's is not worth its room. */
export function cardName(name: string): string {
  return name.replace(/^NVIDIA\s+(GeForce\s+)?/, "");
}

/** Memory in use over memory in all, 0 to 1; undefined when either is not reported. */
export function memoryShare(card: Gpu): number | undefined {
  const { memoryTotalBytes: total, memoryUsedBytes: used } = card;
  if (total === undefined || used === undefined || total === 0n) return undefined;
  return Number(used) / Number(total);
}

function GpuCard({ card }: { card: Gpu }) {
  const size = card.memoryTotalBytes === undefined ? "" : ` · ${gib(card.memoryTotalBytes)} GiB`;
  return (
    <div class="card">
      <div class="row">
        <b>GPU {card.index}</b>
        <span class="small">
          {cardName(card.name)}
          {size}
        </span>
      </div>
      <div class="bar">
        <i style={{ width: `${(memoryShare(card) ?? 0) * 100}%` }} />
      </div>
      <div class="row small">
        <span>{memoryWords(card)}</span>
        <span>{heatWords(card)}</span>
      </div>
      <div class="small">{card.message || holder(card)}</div>
    </div>
  );
}

/** 12.9 of 16 GiB */
export function memoryWords(card: Gpu): string {
  if (card.memoryUsedBytes === undefined) return `memory ${ABSENT}`;
  return `${gib(card.memoryUsedBytes)} of ${gib(card.memoryTotalBytes)} GiB`;
}

function heatWords(card: Gpu): string {
  const heat = card.temperatureCelsius === undefined ? "" : `${count(card.temperatureCelsius)} °C`;
  const power = card.powerWatts === undefined ? "" : `${count(card.powerWatts)} W`;
  return [heat, power].filter((part) => part !== "").join(" · ");
}

/** Who holds the card. */
export function holder(card: Gpu): string {
  if (card.model === "") return "free";
  return card.replica === undefined ? card.model : `${card.model} · replica ${card.replica}`;
}
