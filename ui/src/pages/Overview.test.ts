import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { EventSchema, Severity } from "../gen/lmwarden/v1/system_service_pb";
import { attentionOf } from "./Overview";

const event = (id: number, severity: Severity, kind: string, more: object = {}) =>
  create(EventSchema, { id: BigInt(id), severity, kind, model: "m", ...more });
const ids = (list: { id: bigint }[]) => list.map((e) => Number(e.id));

describe("what needs attention", () => {
  it("leaves out what is over, of the same model and replica", () => {
    const { troubles, notes } = attentionOf([
      event(9, Severity.NOTE, "cache_fits", { replica: 1 }),
      event(8, Severity.WARNING, "cache_thrash", { replica: 2 }),
      event(7, Severity.WARNING, "cache_thrash", { replica: 1 }),
      event(6, Severity.WARNING, "door_crowded"),
      event(5, Severity.NOTE, "door_calm", { model: "other" }),
    ]);
    expect(ids(troubles)).toEqual([8, 6]);
    expect(ids(notes)).toEqual([9, 5]);
  });

  it("takes an end that names no replica for the end of all", () => {
    const { troubles } = attentionOf([
      event(4, Severity.NOTE, "cache_fits"),
      event(3, Severity.WARNING, "cache_thrash", { replica: 1 }),
      event(2, Severity.WARNING, "cache_thrash"),
      event(1, Severity.WARNING, "cache_thrash", { model: "other" }),
    ]);
    expect(ids(troubles)).toEqual([1]);
  });

  it("keeps what began again, and what does not end by itself", () => {
    const { troubles } = attentionOf([
      event(5, Severity.WARNING, "door_crowded"),
      event(4, Severity.NOTE, "door_calm"),
      event(3, Severity.WARNING, "door_crowded"),
      event(2, Severity.ERROR, "replica_failed", { replica: 0 }),
    ]);
    expect(ids(troubles)).toEqual([5, 2]);
  });
});
