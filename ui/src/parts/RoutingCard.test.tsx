import { create } from "@bufbuild/protobuf";
import { cleanup, render, screen, within } from "@testing-library/preact";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Admission, ReplicaState, type RoutingCard, RoutingCardSchema } from "../gen/lmwarden/v1/routing_pb";
import { WatchResponseSchema } from "../gen/lmwarden/v1/system_service_pb";
import { now, receive } from "../store";
import { RoutingCardPanel } from "./RoutingCard";

const START = 1_000_000;

function card(more: object = {}): RoutingCard {
  return create(RoutingCardSchema, {
    model: "qwen3-4b",
    affinity: true,
    spillThreshold: 8,
    spillThresholdAuto: true,
    stickyPercent: 100,
    inFlight: 3,
    replicas: [
      {
        index: 0,
        state: ReplicaState.READY,
        inFlight: 2,
        counts: { sticky: 1038n, spilled: 1n, placed: 3n, clientPinned: 4n, off: 5n, unkeyed: 1n, side: 2n },
        running: 2,
        waiting: 0,
        kvUsed: 0.41,
        prefixHitRate: 0.822,
        metricsAge: { seconds: 2n },
      },
      { index: 1, state: ReplicaState.STARTING },
    ],
    ...more,
  });
}

function show(shown: RoutingCard, at = START) {
  render(<RoutingCardPanel card={shown} at={at} />);
}

const rowOf = (name: RegExp) => {
  const link = screen.getByRole("link", { name });
  const row = link.closest("tr");
  if (row === null) throw new Error("the replica has no row");
  return row;
};
const cells = (row: HTMLElement) =>
  within(row)
    .getAllByRole("cell")
    .map((c) => c.textContent?.replaceAll("\u00a0", " "));

beforeEach(() => {
  now.value = START;
  receive(create(WatchResponseSchema, {}), START);
});
afterEach(cleanup);

describe("the routing card", () => {
  it("shows the counters and the engine's figures of each replica", () => {
    show(card());
    expect(cells(rowOf(/replica 0, ready/))).toEqual([
      "2",
      "1,038",
      "1",
      "3",
      "0",
      "4",
      "8",
      "2 / 0",
      "41 %",
      "82.2 %",
    ]);
  });

  it("says not reported where the engine has said nothing", () => {
    show(card());
    expect(cells(rowOf(/replica 1, starting/)).slice(7)).toEqual([
      "not reported",
      "not reported",
      "not reported",
    ]);
  });

  it("has the pills of the drawing", () => {
    show(card());
    const header = screen.getByRole("region", { name: "Data-parallel routing" }).querySelector("header");
    const text = header?.textContent?.replaceAll("\u00a0", " ");
    expect(text).toContain("Affinity on");
    expect(text).toContain("Spill threshold 8 (auto)");
    expect(text).toContain("Sticky 100.0 %");
    expect(text).toContain("In flight 3");
    expect(text).toContain("Held 0");
  });

  it("says that the spill threshold does not count while admission works", () => {
    show(card({ admission: Admission.WORKING_SET }));
    const text = screen.getByRole("region").textContent?.replaceAll("\u00a0", " ");
    expect(text).toContain("Spill threshold 8 (auto), not while admission works");
  });

  it("shows a dash for a sticky share of nothing", () => {
    show(card({ stickyPercent: undefined, affinity: false, spillThresholdAuto: false }));
    const text = screen.getByRole("region").textContent ?? "";
    expect(text).toContain("Sticky -");
    expect(text).toContain("Affinity off");
    expect(text).not.toContain("(auto)");
  });

  it("greys the engine's figures once they are older than 15 s, and says their age", () => {
    show(card());
    const kv = () => within(rowOf(/replica 0/)).getAllByRole("cell")[7];
    expect(kv()?.className).toBe("");
    cleanup();
    now.value = START + 14_000;
    show(card());
    expect(kv()?.className).toBe("old");
    expect(screen.getByText(/Engine figures 16.s old/)).toBeTruthy();
  });

  it("greys the whole panel when the daemon has been silent", () => {
    now.value = START + 40_000;
    show(card());
    expect(screen.getByRole("region").className).toContain("stale");
    expect(screen.getByText(/figures 40.s old/, { selector: ".pill" })).toBeTruthy();
  });

  it("folds 64 replicas into 16 and 48 more", () => {
    const replicas = Array.from({ length: 64 }, (_, index) => ({ index, state: ReplicaState.READY }));
    show(card({ replicas }));
    expect(screen.getAllByRole("rowheader")).toHaveLength(16);
    expect(screen.getByRole("button", { name: "48 more" })).toBeTruthy();
  });
});
