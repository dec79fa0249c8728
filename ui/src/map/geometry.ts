/**
 * Where everything on the map of the caches lies, in percent of a lane's width. Pure:
 * the component only draws what this says.
 *
 * All lanes have one scale, so that equal widths mean equal tokens. The largest
 * capacity ends at RULE; what overflows lies to the right of it, and when it would leave
 * the lane, everything shrinks alike.
 */
import type { Conversation, RoutingReplica } from "../gen/lmwarden/v1/routing_pb";

/** Where the rule of the largest replica stands, in percent. */
export const RULE = 84;

/** What a block stands for. */
export type BlockKind = "shared" | "busy" | "idle" | "rest";

/** One block of a lane. */
export interface Block {
  kind: BlockKind;
  /** Begin and width, in percent of the lane. */
  left: number;
  width: number;
  /** True for what lies beyond the engine's own figure. */
  over: boolean;
  tokens: number;
  /** The conversation, when the block is one. */
  conversation?: Conversation;
  /** How many conversations a "rest" block stands for. */
  folded?: number;
}

/** One replica's lane. */
export interface Lane {
  index: number;
  /** The engine's figure, in tokens; undefined when not reported. */
  capacity: number | undefined;
  used: number;
  /** Where the rule stands, in percent; undefined without a capacity. */
  rule: number | undefined;
  blocks: Block[];
}

/** How high lanes are: they get thinner as they get more, then fold. */
export type Density = "roomy" | "close" | "thin";

/** The whole map. */
export interface CacheMap {
  lanes: Lane[];
  /** True when some lane overflows. */
  over: boolean;
}

/** Returns how high so many lanes are. */
export function density(lanes: number): Density {
  if (lanes <= 6) return "roomy";
  return lanes <= 10 ? "close" : "thin";
}

interface Part {
  kind: BlockKind;
  tokens: number;
  conversation?: Conversation;
  folded?: number;
}

/**
 * What the cache holds comes before what it has lost, so that the lost ones are those
 * beyond the rule; among each, by id and not by size, so that a block keeps its place
 * while its conversation grows.
 */
function byPlace(a: Conversation, b: Conversation): number {
  const held = Number(b.residentTokens > 0n) - Number(a.residentTokens > 0n);
  if (held !== 0) return held;
  return a.id < b.id ? -1 : 1;
}

/** Returns the parts of a lane from left to right, in tokens. */
function partsOf(replica: RoutingReplica, shared: number): Part[] {
  const working = Number(replica.activeTokens);
  // A replica that nobody uses holds no shared prompt either.
  const sharedHere = Math.min(shared, working);
  const parts: Part[] = [];
  if (sharedHere > 0) parts.push({ kind: "shared", tokens: sharedHere });
  let left = working - sharedHere;
  for (const conversation of [...replica.conversations].sort(byPlace)) {
    const own = Number(conversation.workingTokens ?? 0n);
    if (own === 0) continue;
    left -= own;
    parts.push({
      kind: conversation.inFlight > 0 ? "busy" : "idle",
      tokens: own,
      conversation,
    });
  }
  if (replica.conversationsLeftOut > 0 && left > 0) {
    parts.push({ kind: "rest", tokens: left, folded: replica.conversationsLeftOut });
  }
  return parts;
}

/** Lays the replicas of a model out. */
export function layOut(replicas: readonly RoutingReplica[], shared: number): CacheMap {
  const rows = replicas.map((replica) => {
    const parts = partsOf(replica, shared);
    const used = parts.reduce((sum, part) => sum + part.tokens, 0);
    const capacity = replica.capacityTokens === undefined ? undefined : Number(replica.capacityTokens);
    return { index: replica.index, parts, used, capacity };
  });
  const most = Math.max(0, ...rows.map((row) => row.capacity ?? 0));
  const fullest = Math.max(0, ...rows.map((row) => row.used));
  // Tokens per percent: the rule at RULE unless the fullest lane then leaves the picture.
  const unit = Math.max(most > 0 ? most / RULE : fullest / RULE, fullest / 100) || 1;
  const lanes = rows.map((row): Lane => {
    const blocks: Block[] = [];
    let at = 0;
    for (const part of row.parts) {
      for (const piece of cut(part, at, row.capacity)) {
        blocks.push({ ...piece, left: piece.left / unit, width: piece.width / unit });
      }
      at += part.tokens;
    }
    return {
      index: row.index,
      capacity: row.capacity,
      used: row.used,
      rule: row.capacity === undefined ? undefined : row.capacity / unit,
      blocks,
    };
  });
  return { lanes, over: lanes.some((lane) => lane.blocks.some((block) => block.over)) };
}

/** Cuts a part in two where it crosses the capacity; lengths are in tokens still. */
function cut(part: Part, at: number, capacity: number | undefined): Block[] {
  const end = at + part.tokens;
  const inside = capacity === undefined ? end : Math.min(Math.max(capacity, at), end);
  const blocks: Block[] = [];
  if (inside > at) blocks.push({ ...part, left: at, width: inside - at, over: false });
  if (end > inside) blocks.push({ ...part, left: inside, width: end - inside, over: true });
  return blocks;
}
