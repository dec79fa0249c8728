import { create } from "@bufbuild/protobuf";
import { beforeEach, describe, expect, it } from "vitest";
import { EventSchema, type WatchResponse, WatchResponseSchema } from "./gen/lmwarden/v1/system_service_pb";
import {
  events,
  forgetModel,
  mergeEvents,
  modelNamed,
  models,
  now,
  receive,
  routing,
  STALE,
  silence,
  stale,
} from "./store";

const part = (value: WatchResponse["part"]) => create(WatchResponseSchema, { part: value });
const event = (id: number) => create(EventSchema, { id: BigInt(id) });
const heartbeat = () => part({ case: "heartbeat", value: { $typeName: "lmwarden.v1.Heartbeat" } });

beforeEach(() => {
  now.value = 1000;
  receive(heartbeat(), 1000);
});

describe("what the page has received", () => {
  it("is stale 15 seconds after the last message, and fresh again with the next", () => {
    now.value = 1000 + STALE;
    expect(stale.value).toBe(false);
    now.value = 1000 + STALE + 1;
    expect(stale.value).toBe(true);
    receive(heartbeat(), now.value);
    expect(stale.value).toBe(false);
    expect(silence.value).toBe(0);
  });

  it("keeps a snapshot with the time it came", () => {
    receive(
      part({
        case: "models",
        value: { $typeName: "lmwarden.v1.WatchModelsPart", models: [{ name: "a" } as never] },
      }),
      2000,
    );
    expect(models.value?.at).toBe(2000);
    expect(modelNamed("a")?.name).toBe("a");
    expect(modelNamed("b")).toBeUndefined();
  });

  it("joins events, newest first, each once", () => {
    receive(
      part({
        case: "events",
        value: { $typeName: "lmwarden.v1.WatchEventsPart", events: [event(3), event(1)] },
      }),
    );
    receive(
      part({
        case: "events",
        value: { $typeName: "lmwarden.v1.WatchEventsPart", events: [event(4), event(3)] },
      }),
    );
    expect(events.value?.map((e) => Number(e.id))).toEqual([4, 3, 1]);
    expect(mergeEvents([event(2)], [event(5), event(9)], 2).map((e) => Number(e.id))).toEqual([9, 5]);
  });

  it("forgets one model's figures before another one is watched", () => {
    receive(part({ case: "routing", value: { model: "a" } as never }));
    expect(routing.value?.value.model).toBe("a");
    forgetModel();
    expect(routing.value).toBeUndefined();
  });

  it("takes a part of a newer daemon for a sign of life", () => {
    now.value = 50_000;
    receive(part({ case: undefined }), 50_000);
    expect(stale.value).toBe(false);
  });
});
