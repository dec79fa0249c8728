/**
 * What the page has received, as signals. One writer: `receive` and `linked`, called by
 * the stream. Panels read and never write; nothing here is a copy of a form's state.
 */
import { computed, signal } from "@preact/signals";
import type { Link } from "./api/watch";
import type { Gpu } from "./gen/lmwarden/v1/gpu_service_pb";
import type { Model } from "./gen/lmwarden/v1/model_pb";
import type { RoutingCard } from "./gen/lmwarden/v1/routing_pb";
import type { Throughput } from "./gen/lmwarden/v1/stats_service_pb";
import type { Event, Info, WatchResponse } from "./gen/lmwarden/v1/system_service_pb";

/** A snapshot and when the page got it, in milliseconds since 1970. */
export interface Received<T> {
  value: T;
  at: number;
}

/** Age from which a figure is shown greyed, in milliseconds. */
export const STALE = 15_000;

/** Most events kept; the rest is on the events page. */
const EVENTS_KEPT = 200;

export const info = signal<Info | undefined>();
export const models = signal<Received<Model[]> | undefined>();
export const gpus = signal<Received<{ cards: Gpu[]; message: string }> | undefined>();
export const events = signal<Event[] | undefined>();
export const routing = signal<Received<RoutingCard> | undefined>();
export const stats = signal<Received<Throughput> | undefined>();

/** How the stream stands. */
export const link = signal<Link>({ state: "connecting" });

/** When the last message of the stream came, in milliseconds since 1970; 0 before the first. */
export const lastHeard = signal(0);

/** The page's clock, in milliseconds since 1970; moves once a second. */
export const now = signal(Date.now());

/** Milliseconds since the daemon was last heard; undefined before the first message. */
export const silence = computed(() =>
  lastHeard.value === 0 ? undefined : Math.max(0, now.value - lastHeard.value),
);

/** True when everything on the page is older than it may look. */
export const stale = computed(() => (silence.value ?? 0) > STALE);

/** Takes in one part of the stream. */
export function receive(message: WatchResponse, at = Date.now()): void {
  lastHeard.value = at;
  if (at > now.value) now.value = at;
  const part = message.part;
  switch (part.case) {
    case "info":
      info.value = part.value;
      break;
    case "models":
      models.value = { value: part.value.models, at };
      break;
    case "gpus":
      gpus.value = { value: { cards: part.value.gpus, message: part.value.message }, at };
      break;
    case "events":
      events.value = mergeEvents(events.value ?? [], part.value.events);
      break;
    case "routing":
      routing.value = { value: part.value, at };
      break;
    case "stats":
      stats.value = { value: part.value, at };
      break;
    default:
      // A heartbeat, or a part that a newer daemon sends: being alive is its message.
      break;
  }
}

/** Takes in that the stream came or went. */
export function linked(state: Link): void {
  link.value = state;
}

/** Forgets what belongs to one model, before another one is watched. */
export function forgetModel(): void {
  routing.value = undefined;
  stats.value = undefined;
}

/** Joins new events to known ones, newest first, each once, at most `kept`. */
export function mergeEvents(known: readonly Event[], fresh: readonly Event[], kept = EVENTS_KEPT): Event[] {
  const byId = new Map<bigint, Event>();
  for (const event of [...known, ...fresh]) byId.set(event.id, event);
  return [...byId.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, kept);
}

/** Returns the watched model by name, or undefined when there is none. */
export function modelNamed(name: string): Model | undefined {
  return models.value?.value.find((model) => model.name === name);
}
