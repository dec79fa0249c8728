/**
 * The one stream of a page. It is opened with what the page wants to see, opened again
 * with growing pauses when it ends, and given up and opened again when it has been
 * silent for longer than three heartbeats.
 */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import {
  type WatchRequest,
  WatchRequestSchema,
  type WatchResponse,
} from "../gen/lmwarden/v1/system_service_pb";
import { api, noteRefusal } from "./transport";

/** What the page wants to see. */
export type Wanted = MessageInitShape<typeof WatchRequestSchema>;

/** How the stream stands. */
export type Link =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "lost"; error: unknown; retryAt: number };

/** Who is told. */
export interface Listener {
  /** A part arrived. */
  part(message: WatchResponse): void;
  /** The stream came or went. */
  link(link: Link): void;
}

/** Silence after which the stream is taken for dead, in milliseconds; the daemon says something every 5 s. */
export const SILENCE = 15_000;

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10_000;

/** Returns the pause before the nth try, in milliseconds, spread so that many pages do not return at once. */
export function pause(attempt: number, random: () => number = Math.random): number {
  const full = Math.min(FIRST_PAUSE * 2 ** attempt, LONGEST_PAUSE);
  return full * (0.75 + random() * 0.25);
}

/**
 * Watches until `stop` fires. It never throws: what goes wrong is told to the
 * listener. It ends by itself only when the API wants a token, since trying again
 * without one is pointless.
 */
export async function watch(wanted: Wanted, listener: Listener, stop: AbortSignal): Promise<void> {
  const request = create(WatchRequestSchema, wanted);
  for (let attempt = 0; !stop.aborted; attempt++) {
    listener.link({ state: "connecting" });
    const { received, error } = await readOnce(request, listener, stop);
    if (stop.aborted) return;
    if (received) attempt = 0;
    const wait = pause(attempt);
    listener.link({ state: "lost", error, retryAt: Date.now() + wait });
    if (ConnectError.from(error).code === Code.Unauthenticated) {
      noteRefusal(error);
      return;
    }
    await sleep(wait, stop);
  }
}

/** Reads one stream to its end. */
async function readOnce(
  request: WatchRequest,
  listener: Listener,
  stop: AbortSignal,
): Promise<{ received: boolean; error: unknown }> {
  const attempt = new AbortController();
  const end = () => attempt.abort();
  stop.addEventListener("abort", end, { once: true });
  let timer = setTimeout(end, SILENCE);
  let received = false;
  try {
    for await (const message of api().system.watch(request, { signal: attempt.signal })) {
      if (stop.aborted) break;
      clearTimeout(timer);
      timer = setTimeout(end, SILENCE);
      if (!received) listener.link({ state: "live" });
      received = true;
      listener.part(message);
    }
    return { received, error: new ConnectError("The daemon ended the stream.", Code.Unavailable) };
  } catch (error) {
    const silent = attempt.signal.aborted && !stop.aborted;
    return {
      received,
      error: silent ? new ConnectError("The daemon has been silent.", Code.Unavailable) : error,
    };
  } finally {
    clearTimeout(timer);
    stop.removeEventListener("abort", end);
  }
}

function sleep(milliseconds: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      stop.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    stop.addEventListener("abort", done, { once: true });
  });
}
