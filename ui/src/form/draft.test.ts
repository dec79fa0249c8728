import { create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { describeMessage } from "../dev/describe";
import { KvCacheType, ModelSpecSchema } from "../gen/lmwarden/v1/model_pb";
import { Admission, RoutingSettingsSchema } from "../gen/lmwarden/v1/routing_pb";
import { appliesWord, changedNames, draftOf, fault, hint, isOn, messageOf, spoken } from "./draft";

const routing = describeMessage(RoutingSettingsSchema);
const spec = describeMessage(ModelSpecSchema);

function field(name: string) {
  const found = [...routing, ...spec].find((f) => f.name === name);
  if (found === undefined) throw new Error(`no field ${name}`);
  return found;
}

describe("a draft", () => {
  const full = create(ModelSpecSchema, {
    source: "Qwen/Qwen3-4B",
    aliases: ["claude-*", "small"],
    replicas: 4,
    maxModelLen: 32_768,
    gpuMemoryUtilization: 0.9,
    kvCacheType: KvCacheType.FP8,
    env: { OMP_NUM_THREADS: "1", EMPTY: "", URL: "http://a?b=c" },
  });

  it("and its message say the same, there and back", () => {
    const draft = draftOf(ModelSpecSchema, full, spec);
    expect(draft.aliases).toBe("claude-*\nsmall");
    const back = messageOf(ModelSpecSchema, spec, draft, Object.keys(draft));
    expect(back).toEqual(full);
  });

  it("holds durations in seconds", () => {
    const settings = create(RoutingSettingsSchema, { maxHold: { seconds: 300n } });
    const draft = draftOf(RoutingSettingsSchema, settings, routing);
    expect(draft.max_hold).toBe("300");
    const changed = messageOf(RoutingSettingsSchema, routing, { max_hold: "90.5" }, ["max_hold"]);
    expect(changed.maxHold).toMatchObject({ seconds: 90n, nanos: 500_000_000 });
  });

  it("leaves absent what is empty, so that a mask resets it", () => {
    const settings = create(RoutingSettingsSchema, { spillThreshold: 8, admission: Admission.NONE });
    const from = draftOf(RoutingSettingsSchema, settings, routing);
    const to = { ...from, spill_threshold: "", admission: "" };
    expect(changedNames(routing, from, to)).toEqual(["spill_threshold", "admission"]);
    const message = messageOf(RoutingSettingsSchema, routing, to, ["spill_threshold", "admission"]);
    expect(message.spillThreshold).toBeUndefined();
    expect(message.admission).toBe(Admission.UNSPECIFIED);
  });

  it("sends only what is named", () => {
    const message = messageOf(RoutingSettingsSchema, routing, { affinity: "false", spill_threshold: "8" }, [
      "affinity",
    ]);
    expect(message.affinity).toBe(false);
    expect(message.spillThreshold).toBeUndefined();
  });

  it("reads numbers with and without separators", () => {
    expect(messageOf(ModelSpecSchema, spec, { max_model_len: "32,768" }, ["max_model_len"]).maxModelLen).toBe(
      32_768,
    );
    expect(fault(field("max_model_len"), "32,76")).toBeDefined();
  });
});

describe("a fault", () => {
  it.each([
    ["spill_threshold", "0", "This must be at least 1."],
    ["spill_threshold", "5000", "This must be at most 4,096."],
    ["spill_threshold", "2.5", "This must be a whole number."],
    ["spill_threshold", "many", "This must be a whole number."],
    ["gpu_memory_utilization", "1.2", "This must be at most 1."],
    ["gpu_memory_utilization", "0.01", "This must be at least 0.05."],
    ["max_hold", "x", "This must be a number."],
    ["env", "A=1\nB", '"B" is not NAME=value.'],
  ])("of %s = %s says %s", (name, text, want) => {
    expect(fault(field(name), text)).toBe(want);
  });

  it.each([
    ["spill_threshold", ""],
    ["spill_threshold", "8"],
    ["env", "A="],
    ["gpu_memory_utilization", "0.9"],
  ])("is not found in %s = %s", (name, text) => {
    expect(fault(field(name), text)).toBeUndefined();
  });
});

describe("the words beside a field", () => {
  it("tell unit, range and meaning", () => {
    expect(hint(field("spill_threshold"), "")).toMatch(/^requests, 1 to 4,096; a request leaves its home/);
  });

  it("tell what the choice does once there is one", () => {
    expect(hint(field("admission"), "ADMISSION_WORKING_SET")).toBe("let in only what the caches can hold");
    expect(spoken(field("kv_cache_type"), "KV_CACHE_TYPE_FP8")).toBe("fp8");
    expect(spoken(field("kv_cache_type"), "")).toBe("auto");
  });

  it("tell when a change applies as the API does", () => {
    expect(appliesWord(field("affinity"))).toEqual({ word: "live", restart: false });
    expect(appliesWord(field("max_num_seqs"))).toEqual({ word: "restarts replicas", restart: true });
    expect(appliesWord(field("source"))).toEqual({ word: "only at creation", restart: false });
  });

  it("let an absent switch stand on where absent means on", () => {
    expect(isOn(field("affinity"), "")).toBe(true);
    expect(isOn(field("affinity"), "false")).toBe(false);
  });
});
