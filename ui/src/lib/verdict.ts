/**
 * The sentence at the top of a page: what is the case, for whom, what to do. Pure: a
 * snapshot in, pieces of text out, the figures that matter marked as strong.
 */
import type { Model } from "../gen/lmwarden/v1/model_pb";
import { ModelState } from "../gen/lmwarden/v1/model_pb";
import { Fit, ReplicaState, type RoutingCard } from "../gen/lmwarden/v1/routing_pb";
import type { Throughput } from "../gen/lmwarden/v1/stats_service_pb";
import { bigCount, count, inWords, plural, share } from "./format";

/** A piece of a sentence. */
export type Piece = string | { strong: string };

const strong = (text: string): Piece => ({ strong: text });

/** Sums of a card over its replicas. */
export interface Totals {
  /** Tokens of the working sets: conversations at work and shared prompts. */
  working: number;
  /** Capacity; undefined when one replica's is not known. */
  capacity: number | undefined;
}

/** Adds up the replicas of a card that can take requests. */
export function totals(card: RoutingCard): Totals {
  let working = 0;
  let capacity: number | undefined = card.replicas.length > 0 ? 0 : undefined;
  for (const replica of card.replicas) {
    working += Number(replica.activeTokens);
    capacity =
      capacity === undefined || replica.capacityTokens === undefined
        ? undefined
        : capacity + Number(replica.capacityTokens);
  }
  return { working, capacity };
}

/** The sentence of a model that is not simply running, or undefined when it is. */
function troubled(model: Model): Piece[] | undefined {
  const status = model.status;
  const replicas = status?.replicas ?? [];
  const ready = replicas.filter((r) => r.state === ReplicaState.READY).length;
  const said = status?.message ? [" ", status.message] : [];
  switch (status?.state) {
    case ModelState.STOPPED:
      return ["It is stopped and holds no card. Start it to serve conversations.", ...said];
    case ModelState.STARTING:
      return [
        "It is starting: ",
        strong(`${ready} of ${replicas.length}`),
        " replicas are ready. It serves from the first one on.",
        ...said,
      ];
    case ModelState.STOPPING:
      return ["It is stopping: requests in flight are finished, new ones are refused.", ...said];
    case ModelState.FAILED:
      return [strong("No replica can be started."), ...said];
    case ModelState.BROKEN:
      return [strong("Its stored record cannot be read."), ...said];
    default:
      return undefined;
  }
}

const fitSentence: Partial<Record<Fit, string>> = {
  [Fit.FITS]: "It fits. ",
  [Fit.EDGE]: "It fits, just. ",
  [Fit.THRASH]: "It does not fit: conversations push each other out and are read again. ",
};

/** The sentence of a model's page. */
export function modelVerdict(model: Model, card: RoutingCard | undefined): Piece[] {
  const trouble = troubled(model);
  if (trouble !== undefined) return trouble;
  if (card === undefined) return ["It serves."];
  const pieces: Piece[] = [];
  const down = card.replicas.filter((r) => r.state !== ReplicaState.READY).length;
  if (down > 0) {
    pieces.push(
      strong(`${down} of ${plural(card.replicas.length, "replica")} ${down === 1 ? "is" : "are"} not ready`),
      "; the others carry its conversations. ",
    );
  }
  pieces.push(...occupancy(card), ...waiting(card));
  const hits = model.status?.hitRateHour;
  if (hits !== undefined) {
    pieces.push(" Of the last hour's prompt tokens ", strong(share(hits, 0)), " came from cache.");
  }
  return pieces;
}

/** Who has waited at the door for most of the last minutes; what passes is not told here. */
function waiting(card: RoutingCard): Piece[] {
  if (card.door === undefined) return [];
  const n = Math.max(1, Math.round(card.door.meanWaiting));
  return [
    " ",
    strong(plural(n, "conversation")),
    ` more ${n === 1 ? "waits" : "wait"} at the door most of the time.`,
  ];
}

/** What the caches hold, and what still has room. */
function occupancy(card: RoutingCard): Piece[] {
  const { working, capacity } = totals(card);
  const n = card.activeConversations;
  if (n === 0) return ["It is ready, and no conversation is at work."];
  const who = strong(plural(n, "conversation"));
  if (!card.affinity) {
    return [
      "Affinity is off: each turn goes to the least busy replica, whatever its cache holds. ",
      who,
      ` ${n === 1 ? "is" : "are"} at work.`,
    ];
  }
  const verb = n === 1 ? "uses" : "use";
  if (capacity === undefined) {
    return [who, ` ${verb} ${count(working)} cache tokens; the engine has not said how many it holds.`];
  }
  const pieces: Piece[] = [
    fitSentence[card.fit] ?? "",
    who,
    ` ${verb} ${count(working)} of ${count(capacity)} cache tokens`,
  ];
  const room = card.roomFor;
  if (card.fit === Fit.THRASH) {
    pieces.push("; run fewer at once, or give the caches more room (KV cache type fp8, more cards).");
  } else if (room === 0) {
    pieces.push("; ", strong("no more"), " of the present size has room.");
  } else if (room !== undefined) {
    pieces.push(
      "; about ",
      strong(`${inWords(room)} more`),
      ` of the present size ${room === 1 ? "has" : "have"} room.`,
    );
  } else {
    pieces.push(".");
  }
  return pieces;
}

/** The sentence of the overview. */
export function overviewVerdict(models: readonly Model[], all: Throughput | undefined): Piece[] {
  const meant = models.filter((m) => m.running || m.status?.state === ModelState.BROKEN);
  if (models.length === 0) return ["No model yet. Add one to serve conversations."];
  if (meant.length === 0) return ["Every model is stopped. Start one to serve conversations."];
  const pieces: Piece[] = [...worst(meant)];
  const conversations = meant.reduce((n, m) => n + (m.status?.activeConversations ?? 0), 0);
  const replicas = meant.reduce((n, m) => n + readyCount(m), 0);
  if (conversations > 0) {
    pieces.push(
      " ",
      strong(plural(conversations, "conversation")),
      ` ${conversations === 1 ? "stays" : "stay"} home on ${plural(replicas, "replica")}`,
    );
  } else {
    pieces.push(" No conversation is at work");
  }
  if (all !== undefined && all.promptHour > 0n) {
    pieces.push(
      "; the cache saved ",
      strong(bigCount(all.cachedHour)),
      ` of the last hour's ${bigCount(all.promptHour)} prompt tokens.`,
    );
  } else {
    pieces.push(".");
  }
  return pieces;
}

/** The gravest thing first; "Everything fits." when there is none. */
function worst(models: readonly Model[]): Piece[] {
  const broken = models.find((m) => isOneOf(m, ModelState.FAILED, ModelState.BROKEN));
  if (broken) return [strong(`${broken.name} does not serve.`), ` ${broken.status?.message ?? ""}`];
  const degraded = models.find((m) => isOneOf(m, ModelState.DEGRADED));
  if (degraded) {
    const total = degraded.status?.replicas.length ?? 0;
    return [strong(`${degraded.name} runs on ${readyCount(degraded)} of ${plural(total, "replica")}.`)];
  }
  const tight = models.find((m) => m.status?.fit === Fit.THRASH);
  if (tight) {
    return [
      strong(`${tight.name} does not fit:`),
      " its conversations push each other out of the caches. Run fewer at once.",
    ];
  }
  const starting = models.filter((m) => isOneOf(m, ModelState.STARTING));
  if (starting.length > 0) {
    return [
      strong(starting.map((m) => m.name).join(", ")),
      ` ${starting.length === 1 ? "is" : "are"} starting.`,
    ];
  }
  if (models.some((m) => m.status?.fit === Fit.EDGE)) return ["Everything fits, just."];
  return ["Everything fits."];
}

function isOneOf(model: Model, ...states: ModelState[]): boolean {
  return model.status !== undefined && states.includes(model.status.state);
}

function readyCount(model: Model): number {
  return model.status?.replicas.filter((r) => r.state === ReplicaState.READY).length ?? 0;
}
