/** The map of the caches: one lane a replica, one block a conversation, and the door. */
import type { RoutingCard } from "../gen/lmwarden/v1/routing_pb";
import { ABSENT, count, shortId } from "../lib/format";
import { conversationPath } from "../lib/paths";
import { totals } from "../lib/verdict";
import { fitWord } from "../lib/words";
import { Pill } from "../parts/bits";
import { useFold } from "../parts/Fold";
import { Panel } from "../parts/Panel";
import { Door } from "./Door";
import { type Block, density, type Lane, layOut } from "./geometry";

/** The panel with the map. */
export function CacheMapPanel({ card, at }: { card: RoutingCard; at: number }) {
  const map = layOut(card.replicas, Number(card.sharedTokens ?? 0n));
  const { shown, more } = useFold(map.lanes);
  const { working, capacity } = totals(card);
  const fit = fitWord(card.fit);
  return (
    <Panel
      title="What each cache holds"
      live
      beside={
        fit &&
        capacity !== undefined &&
        capacity > 0 && (
          <Pill tone={fit.tone}>
            <b>{fit.word}</b> {Math.round((working / capacity) * 100)} %
          </Pill>
        )
      }
      end={<small>one block is one conversation, as wide as its context</small>}
    >
      <div class={`map ${density(map.lanes.length)}`}>
        {shown.map((lane) => (
          <LaneRow key={lane.index} lane={lane} model={card.model} />
        ))}
      </div>
      {more}
      <Legend over={map.over} shared={card.sharedTokens !== undefined} />
      <Door card={card} at={at} />
    </Panel>
  );
}

function LaneRow({ lane, model }: { lane: Lane; model: string }) {
  const figure =
    lane.capacity === undefined
      ? `${count(lane.used)}, capacity ${ABSENT}`
      : `${count(lane.used)} of ${count(lane.capacity)}`;
  return (
    <div class="lane">
      <span>replica {lane.index}</span>
      <div class="track">
        {lane.rule !== undefined && <div class="room" style={{ width: `${lane.rule}%` }} />}
        {lane.blocks.map((block) => (
          <BlockMark key={blockKey(block)} block={block} model={model} />
        ))}
        {lane.rule !== undefined && <div class="edge" style={{ left: `${lane.rule}%` }} />}
      </div>
      <span class="small">{figure}</span>
    </div>
  );
}

function blockKey(block: Block): string {
  return `${block.conversation?.id ?? block.kind}${block.over ? " over" : ""}`;
}

/** Says what a block is, for the pointer and for those who do not see it. */
export function blockTitle(block: Block): string {
  const tokens = `${count(block.tokens)} tokens`;
  const over = block.over ? ", beyond the cache: will be read again" : "";
  if (block.kind === "shared") return `shared by all: system prompt and tools, ${tokens}${over}`;
  if (block.kind === "rest") return `${count(block.folded)} more conversations, ${tokens}${over}`;
  const doing = block.kind === "busy" ? "turn in flight" : "idle";
  return `conversation ${shortId(block.conversation?.id ?? "")}: ${tokens}, ${doing}${over}`;
}

function BlockMark({ block, model }: { block: Block; model: string }) {
  const className = `seg ${block.kind}${block.over ? " over" : ""}`;
  const style = { left: `${block.left}%`, width: `${block.width}%` };
  const title = blockTitle(block);
  if (block.conversation === undefined) {
    return <div class={className} style={style} title={title} role="img" aria-label={title} />;
  }
  return (
    <a class={className} style={style} title={title} href={conversationPath(model, block.conversation.id)}>
      <span class="hidden">{title}</span>
    </a>
  );
}

function Legend({ over, shared }: { over: boolean; shared: boolean }) {
  return (
    <div class="legend">
      <span>
        <i class="swatch-busy" />
        turn in flight
      </span>
      <span>
        <i class="swatch-idle" />
        idle, cache warm
      </span>
      {shared && (
        <span>
          <i class="swatch-shared" />
          shared prompt
        </span>
      )}
      <span>
        <i class="swatch-room" />
        room
      </span>
      {over && (
        <span>
          <i class="swatch-over" />
          does not fit, will be read again
        </span>
      )}
      <span>
        <i class="swatch-edge" />
        the engine's own figure for its KV cache
      </span>
    </div>
  );
}
