import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { RoutingReplicaSchema } from "../gen/lmwarden/v1/routing_pb";
import { density, layOut, RULE } from "./geometry";

function replica(index: number, capacity: number | undefined, contexts: number[], more: object = {}) {
  const shared = contexts.length > 0 ? 1000 : 0;
  return create(RoutingReplicaSchema, {
    index,
    ...(capacity === undefined ? {} : { capacityTokens: BigInt(capacity) }),
    activeTokens: BigInt(contexts.reduce((sum, c) => sum + c - 1000, shared)),
    conversations: contexts.map((c, i) => ({
      id: `c${index}${i}`,
      workingTokens: BigInt(c - 1000),
      inFlight: i % 2,
    })),
    ...more,
  });
}

describe("the map of the caches", () => {
  it("draws the shared prompt once, then each conversation's own part", () => {
    const [lane] = layOut([replica(0, 10_000, [3000, 4000])], 1000).lanes;
    expect(lane?.blocks.map((b) => [b.kind, b.tokens])).toEqual([
      ["shared", 1000],
      ["idle", 2000],
      ["busy", 3000],
    ]);
    expect(lane?.used).toBe(6000);
    expect(lane?.rule).toBeCloseTo(RULE);
    expect(lane?.blocks[1]?.left).toBeCloseTo(RULE * 0.1);
    expect(lane?.blocks[2]?.width).toBeCloseTo(RULE * 0.3);
  });

  it("has one scale for all lanes", () => {
    const { lanes } = layOut([replica(0, 10_000, [3000]), replica(1, 5000, [3000])], 1000);
    expect(lanes[1]?.rule).toBeCloseTo(RULE / 2);
    expect(lanes[0]?.blocks[1]?.width).toBeCloseTo(lanes[1]?.blocks[1]?.width ?? 0);
  });

  it("cuts a conversation at the rule and marks what lies beyond it", () => {
    const { lanes, over } = layOut([replica(0, 5000, [3000, 4000])], 1000);
    const last = lanes[0]?.blocks.slice(-2) ?? [];
    expect(over).toBe(true);
    expect(last.map((b) => [b.over, b.conversation?.id])).toEqual([
      [false, "c01"],
      [true, "c01"],
    ]);
    expect(last[1]?.left).toBeCloseTo(lanes[0]?.rule ?? 0);
  });

  it("keeps everything inside the lane however much overflows", () => {
    const { lanes } = layOut([replica(0, 1000, [50_000, 70_000])], 1000);
    const end = Math.max(...(lanes[0]?.blocks.map((b) => b.left + b.width) ?? []));
    expect(end).toBeCloseTo(100);
    expect(lanes[0]?.rule).toBeLessThan(2);
  });

  it("draws no rule where the engine has told no capacity", () => {
    const { lanes, over } = layOut([replica(0, undefined, [3000])], 1000);
    expect(lanes[0]?.rule).toBeUndefined();
    expect(over).toBe(false);
    expect(lanes[0]?.blocks).toHaveLength(2);
  });

  it("shows conversations left out of the list as one block", () => {
    const [lane] = layOut(
      [replica(0, 100_000, [3000], { activeTokens: 30_000n, conversationsLeftOut: 12 })],
      1000,
    ).lanes;
    expect(lane?.blocks.at(-1)).toMatchObject({ kind: "rest", tokens: 27_000, folded: 12 });
  });

  it("keeps a block in its place while its conversation grows past another", () => {
    const ids = (contexts: number[]) =>
      layOut([replica(0, 10_000, contexts)], 1000).lanes[0]?.blocks.map((b) => b.conversation?.id);
    expect(ids([3000, 2000])).toEqual(ids([2000, 3000]));
  });

  it("puts what the cache has lost beyond what it holds", () => {
    const lost = replica(0, 5000, [3000, 3000]);
    for (const c of lost.conversations) c.residentTokens = c.id === "c00" ? 0n : 3000n;
    const [lane] = layOut([lost], 1000).lanes;
    expect(lane?.blocks.map((b) => b.conversation?.id)).toEqual([undefined, "c01", "c00"]);
  });

  it("leaves an empty replica empty", () => {
    expect(layOut([replica(0, 10_000, [])], 1000).lanes[0]?.blocks).toEqual([]);
    expect(layOut([], 0).lanes).toEqual([]);
  });

  it.each([
    [1, "roomy"],
    [6, "roomy"],
    [8, "close"],
    [64, "thin"],
  ])("with %i lanes is %s", (lanes, want) => {
    expect(density(lanes)).toBe(want);
  });
});
