import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { SystemService, type WatchResponse, WatchResponseSchema } from "../gen/lmwarden/v1/system_service_pb";
import { signIn, signOut, tokenWanted } from "./token";
import { useTransport, withToken } from "./transport";
import { type Link, pause, SILENCE, watch } from "./watch";

const beat = () => create(WatchResponseSchema, { part: { case: "heartbeat", value: {} as never } });

type Source = (attempt: number, header: Headers) => AsyncIterable<WatchResponse>;

/** Serves Watch from `source`, which is told how many streams were opened before. */
function serve(source: Source) {
  let opened = 0;
  useTransport(
    createRouterTransport(
      ({ service }) => {
        service(SystemService, { watch: (_, context) => source(opened++, context.requestHeader) });
      },
      { transport: { interceptors: [withToken] } },
    ),
  );
  return () => opened;
}

const never = () => new Promise<never>(() => {});

function listen() {
  const links: Link["state"][] = [];
  const parts: WatchResponse[] = [];
  return {
    links,
    parts,
    listener: { part: (m: WatchResponse) => parts.push(m), link: (l: Link) => links.push(l.state) },
  };
}

beforeEach(() => vi.useFakeTimers({ shouldAdvanceTime: false }));
afterEach(() => {
  vi.useRealTimers();
  signOut();
  tokenWanted.value = false;
});

/** Lets promises and timers of so many milliseconds run. */
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe("the stream", () => {
  it("is opened again after it ended, and is live again with its first message", async () => {
    const opened = serve(async function* (attempt) {
      yield beat();
      if (attempt > 0) await never();
    });
    const { links, parts, listener } = listen();
    const stop = new AbortController();
    void watch({}, listener, stop.signal);
    await pass(1000);
    expect(opened()).toBe(2);
    expect(parts).toHaveLength(2);
    expect(links).toEqual(["connecting", "live", "lost", "connecting", "live"]);
    stop.abort();
  });

  it("is given up when it has been silent for too long", async () => {
    const opened = serve(async function* () {
      yield beat();
      await never();
    });
    const { links, listener } = listen();
    const stop = new AbortController();
    void watch({}, listener, stop.signal);
    await pass(SILENCE - 100);
    expect(opened()).toBe(1);
    await pass(1200);
    expect(links.slice(0, 3)).toEqual(["connecting", "live", "lost"]);
    expect(opened()).toBe(2);
    stop.abort();
  });

  it("waits longer from failure to failure", async () => {
    // biome-ignore lint/correctness/useYield: this stream fails before its first message.
    const opened = serve(async function* () {
      throw new ConnectError("restarting", Code.Unavailable);
    });
    const stop = new AbortController();
    void watch({}, listen().listener, stop.signal);
    await pass(1600);
    expect(opened()).toBe(3);
    await pass(60_000);
    const later = opened();
    expect(later).toBeGreaterThan(6);
    expect(later).toBeLessThan(14);
    stop.abort();
    await pass(60_000);
    expect(opened()).toBe(later);
  });

  it("asks for a token instead of trying on, and sends it once it is there", async () => {
    const opened = serve(async function* (_, header) {
      if (header.get("Authorization") !== "Bearer secret") {
        throw new ConnectError("a token is wanted", Code.Unauthenticated);
      }
      yield beat();
      await never();
    });
    const { parts, listener } = listen();
    await Promise.all([watch({}, listener, new AbortController().signal), pass(0)]);
    expect(tokenWanted.value).toBe(true);
    expect(opened()).toBe(1);
    signIn(" secret ");
    expect(tokenWanted.value).toBe(false);
    const stop = new AbortController();
    void watch({}, listener, stop.signal);
    await pass(10);
    expect(parts).toHaveLength(1);
    stop.abort();
  });

  it("doubles its pauses up to ten seconds", () => {
    const pauses = [0, 1, 2, 3, 4, 5, 20].map((n) => pause(n, () => 1));
    expect(pauses).toEqual([500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
    expect(pause(0, () => 0)).toBe(375);
  });
});
