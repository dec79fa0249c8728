import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ModelSchema, ModelState } from "../gen/lmwarden/v1/model_pb";
import { Fit, ReplicaState, RoutingCardSchema } from "../gen/lmwarden/v1/routing_pb";
import { ThroughputSchema } from "../gen/lmwarden/v1/stats_service_pb";
import { modelVerdict, overviewVerdict, type Piece } from "./verdict";

const text = (pieces: Piece[]) =>
  pieces
    .map((p) => (typeof p === "string" ? p : p.strong))
    .join("")
    .replaceAll("\u00a0", " ");

function model(state: ModelState, more: object = {}, name = "qwen3-4b") {
  const replicas = [0, 1].map((index) => ({ index, state: ReplicaState.READY }));
  return create(ModelSchema, { name, running: true, status: { state, replicas, ...more } });
}

function card(fit: Fit, working: bigint, more: object = {}) {
  const replica = (index: number) => ({
    index,
    state: ReplicaState.READY,
    activeTokens: working,
    capacityTokens: 46_080n,
  });
  return create(RoutingCardSchema, {
    fit,
    affinity: true,
    activeConversations: 14,
    replicas: [replica(0), replica(1)],
    ...more,
  });
}

describe("the sentence of a model", () => {
  it("says that it fits, just, and how many more have room", () => {
    const got = text(
      modelVerdict(model(ModelState.READY, { hitRateHour: 0.861 }), card(Fit.EDGE, 39_220n, { roomFor: 2 })),
    );
    expect(got).toBe(
      "It fits, just. 14 conversations use 78,440 of 92,160 cache tokens; about two more of the present size have room. Of the last hour's prompt tokens 86 % came from cache.",
    );
  });

  it("claims nothing about homes while affinity is off", () => {
    const got = text(modelVerdict(model(ModelState.READY), card(Fit.FITS, 0n, { affinity: false })));
    expect(got).toBe(
      "Affinity is off: each turn goes to the least busy replica, whatever its cache holds. 14 conversations are at work.",
    );
  });

  it("says what to do when it does not fit", () => {
    const got = text(modelVerdict(model(ModelState.READY), card(Fit.THRASH, 60_000n)));
    expect(got).toContain("It does not fit");
    expect(got).toContain("run fewer at once");
  });

  it("says that some wait at the door most of the time, and nothing of those who pass", () => {
    const busy = card(Fit.EDGE, 44_000n, { held: 8, roomFor: 0, door: { meanWaiting: 7.6 } });
    expect(text(modelVerdict(model(ModelState.READY), busy))).toContain(
      "no more of the present size has room. 8 conversations more wait at the door most of the time.",
    );
    busy.door = undefined;
    expect(text(modelVerdict(model(ModelState.READY), busy))).not.toContain("at the door");
  });

  it("claims nothing about a capacity that the engine has not told", () => {
    const unknown = card(Fit.UNSPECIFIED, 100n);
    for (const replica of unknown.replicas) replica.capacityTokens = undefined;
    expect(text(modelVerdict(model(ModelState.READY), unknown))).toBe(
      "14 conversations use 200 cache tokens; the engine has not said how many it holds.",
    );
  });

  it("puts a replica that is down before everything else", () => {
    const half = card(Fit.FITS, 100n);
    for (const replica of half.replicas.slice(1)) replica.state = ReplicaState.FAILED;
    expect(text(modelVerdict(model(ModelState.DEGRADED), half))).toMatch(
      /^1 of 2 replicas is not ready; the others/,
    );
  });

  it.each([
    [ModelState.STOPPED, "It is stopped"],
    [ModelState.STARTING, "It is starting: 2 of 2"],
    [ModelState.STOPPING, "It is stopping"],
    [ModelState.FAILED, "No replica can be started."],
    [ModelState.BROKEN, "Its stored record cannot be read."],
  ])("in state %s begins with %s", (state, begin) => {
    expect(text(modelVerdict(model(state, { message: "Because." }), undefined))).toMatch(
      new RegExp(`^${begin}.*Because\\.$`),
    );
  });
});

describe("the sentence of the box", () => {
  it("counts conversations, replicas and what the cache saved", () => {
    const all = create(ThroughputSchema, { cachedHour: 1_900_000n, promptHour: 2_200_000n });
    expect(
      text(overviewVerdict([model(ModelState.READY, { fit: Fit.FITS, activeConversations: 14 })], all)),
    ).toBe(
      "Everything fits. 14 conversations stay home on 2 replicas; the cache saved 1.9 million of the last hour's 2.2 million prompt tokens.",
    );
  });

  it("names the gravest trouble first", () => {
    const models = [
      model(ModelState.READY, { fit: Fit.THRASH }, "tight"),
      model(ModelState.FAILED, { message: "Its engine ends at once." }, "gone"),
    ];
    expect(text(overviewVerdict(models, undefined))).toMatch(
      /^gone does not serve\. Its engine ends at once\./,
    );
  });

  it("says what to do on an empty box", () => {
    expect(text(overviewVerdict([], undefined))).toContain("Add one");
  });
});
