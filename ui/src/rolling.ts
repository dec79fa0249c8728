/**
 * Restarts the replicas of a model one by one: the next one only when the one before is
 * ready in a new life. The API restarts single replicas and answers at once, so the
 * order is kept here; a page that is closed leaves the rest as they are.
 */
import { signal } from "@preact/signals";
import { problem } from "./api/errors";
import { api } from "./api/transport";
import type { Replica } from "./gen/lmwarden/v1/model_pb";
import { ReplicaState } from "./gen/lmwarden/v1/routing_pb";
import { modelNamed, models } from "./store";

/** How a rolling restart stands. */
export type Rolling =
  | { kind: "under way"; model: string; replica: number; done: number; of: number }
  | { kind: "stopped"; model: string; sentence: string };

/** The rolling restart of this page; undefined when there is none. */
export const rolling = signal<Rolling | undefined>();

/** Restarts all replicas of a model. It never throws: `rolling` tells how it goes. */
export async function restartAll(model: string): Promise<void> {
  const replicas = modelNamed(model)?.status?.replicas ?? [];
  for (const [done, replica] of replicas.entries()) {
    rolling.value = { kind: "under way", model, replica: replica.index, done, of: replicas.length };
    try {
      await api().replicas.restartReplica({ model, index: replica.index });
      await renewed(replica);
    } catch (error) {
      const rest = replicas.length - done - 1;
      const others = rest > 0 ? " The others were left as they are." : "";
      rolling.value = {
        kind: "stopped",
        model,
        sentence: `Replica ${replica.index} was not restarted: ${ended(problem(error).sentence)}${others}`,
      };
      return;
    }
  }
  rolling.value = undefined;
}

/** Ends a sentence with a full stop. */
function ended(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

/** Waits until a replica is ready in a life after the one it had. */
async function renewed(before: Replica): Promise<void> {
  let forget = () => {};
  try {
    await new Promise<void>((resolve, reject) => {
      forget = models.subscribe(() => {
        const replicas = modelNamed(before.model)?.status?.replicas;
        const after = replicas?.find((r) => r.index === before.index);
        if (after === undefined) reject(new Error("it is gone, or its model was stopped meanwhile."));
        else if (after.state === ReplicaState.FAILED)
          reject(new Error(after.message || "it failed to start."));
        else if (after.incarnation > before.incarnation && after.state === ReplicaState.READY) resolve();
      });
    });
  } finally {
    forget();
  }
}
