/** The words and marks of the API's states. Every mark has a shape besides its colour. */
import { ModelState } from "../gen/lmwarden/v1/model_pb";
import { DecisionClass, Fit, MissCause, ReplicaState } from "../gen/lmwarden/v1/routing_pb";
import { Severity } from "../gen/lmwarden/v1/system_service_pb";

/** How a state looks: fine, needs a look, broken, or not running. */
export type Tone = "good" | "warn" | "bad" | "off";

/** A state in a word, and how it looks. */
export interface Word {
  word: string;
  tone: Tone;
}

const unknown: Word = { word: "not reported", tone: "off" };

const replicaStates: Partial<Record<ReplicaState, Word>> = {
  [ReplicaState.STOPPED]: { word: "stopped", tone: "off" },
  [ReplicaState.STARTING]: { word: "starting", tone: "warn" },
  [ReplicaState.READY]: { word: "ready", tone: "good" },
  [ReplicaState.DRAINING]: { word: "draining", tone: "warn" },
  [ReplicaState.STOPPING]: { word: "stopping", tone: "warn" },
  [ReplicaState.BACKOFF]: { word: "failed, will start again", tone: "bad" },
  [ReplicaState.FAILED]: { word: "failed", tone: "bad" },
  [ReplicaState.SUSPECT]: { word: "not answering", tone: "warn" },
};

/** Word and mark of a replica's state. */
export function replicaWord(state: ReplicaState): Word {
  return replicaStates[state] ?? unknown;
}

const modelStates: Partial<Record<ModelState, Word>> = {
  [ModelState.STOPPED]: { word: "stopped", tone: "off" },
  [ModelState.STARTING]: { word: "starting", tone: "warn" },
  [ModelState.READY]: { word: "ready", tone: "good" },
  [ModelState.DEGRADED]: { word: "degraded", tone: "warn" },
  [ModelState.STOPPING]: { word: "stopping", tone: "warn" },
  [ModelState.FAILED]: { word: "failed", tone: "bad" },
  [ModelState.BROKEN]: { word: "broken record", tone: "bad" },
};

/** Word and mark of a model's state. */
export function modelWord(state: ModelState | undefined): Word {
  return (state === undefined ? undefined : modelStates[state]) ?? unknown;
}

const decisions: Partial<Record<DecisionClass, string>> = {
  [DecisionClass.PLACED]: "placed",
  [DecisionClass.STICKY]: "sticky",
  [DecisionClass.SPILLED]: "spilled",
  [DecisionClass.REHOMED]: "rehomed",
  [DecisionClass.CLIENT_PINNED]: "client-pinned",
  [DecisionClass.UNKEYED]: "unkeyed",
  [DecisionClass.SIDE]: "side",
  [DecisionClass.OFF]: "off",
};

/** Word of a decision class; a request that was never forwarded has none. */
export function decisionWord(decision: DecisionClass): string {
  return decisions[decision] ?? "not forwarded";
}

/** The decision classes that a list can be narrowed to, with their words. */
export const decisionChoices = Object.entries(decisions).map(([value, word]) => ({
  value: Number(value) as DecisionClass,
  word,
}));

const misses: Partial<Record<MissCause, string>> = {
  [MissCause.NEW]: "first turn of its conversation",
  [MissCause.EVICTED]: "the replica had given up its blocks",
  [MissCause.SPILLED]: "it went to a replica without its cache",
  [MissCause.REHOMED]: "its conversation got a new home",
  [MissCause.PREFIX_CHANGED]: "the client changed the beginning of its prompt",
  [MissCause.REPLICA_RESTARTED]: "the replica had restarted with an empty cache",
};

/** Why a prompt was not in the cache; undefined when it was, or when nobody knows. */
export function missWord(miss: MissCause): string | undefined {
  return misses[miss];
}

const fits: Partial<Record<Fit, Word>> = {
  [Fit.FITS]: { word: "fits", tone: "good" },
  [Fit.EDGE]: { word: "edge", tone: "warn" },
  [Fit.THRASH]: { word: "thrash", tone: "bad" },
};

/** Word and mark of a fit; undefined while the capacity is not known. */
export function fitWord(fit: Fit | undefined): Word | undefined {
  return fit === undefined ? undefined : fits[fit];
}

/** Word and mark of an event's severity. */
export function severityWord(severity: Severity): Word {
  if (severity === Severity.ERROR) return { word: "error", tone: "bad" };
  if (severity === Severity.WARNING) return { word: "warning", tone: "warn" };
  return { word: "note", tone: "off" };
}

/** A machine-readable kind as a person reads it: "replica_failed" is "replica failed". */
export function kindWord(kind: string): string {
  return kind.replaceAll("_", " ");
}
