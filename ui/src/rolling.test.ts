import { create } from "@bufbuild/protobuf";
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";
import { beforeEach, expect, it, vi } from "vitest";
import { useTransport } from "./api/transport";
import { ModelSchema } from "./gen/lmwarden/v1/model_pb";
import { ReplicaService } from "./gen/lmwarden/v1/replica_service_pb";
import { ReplicaState } from "./gen/lmwarden/v1/routing_pb";
import { restartAll, rolling } from "./rolling";
import { models } from "./store";

const restarted: number[] = [];

/** Shows two replicas in these lives and states. */
function show(...replicas: [life: number, state: ReplicaState, message?: string][]) {
  const model = create(ModelSchema, {
    name: "m",
    status: {
      replicas: replicas.map(([life, state, message = ""], index) => ({
        model: "m",
        index,
        state,
        message,
        incarnation: BigInt(life),
      })),
    },
  });
  models.value = { value: [model], at: 0 };
}

beforeEach(() => {
  restarted.length = 0;
  rolling.value = undefined;
  useTransport(
    createRouterTransport(({ service }) => {
      service(ReplicaService, {
        restartReplica: ({ index }) => {
          restarted.push(index);
          return {};
        },
      });
    }),
  );
});

/** Waits until these replicas were asked to restart, in this order. */
const asked = (indices: number[]) =>
  vi.waitFor(() => expect(restarted).toEqual(indices), { timeout: 30_000 });

const { READY, STARTING, FAILED } = ReplicaState;

it("restarts a replica only when the one before is ready in a new life", async () => {
  show([1, READY], [1, READY]);
  const whole = restartAll("m");
  await asked([0]);
  show([1, READY], [1, READY]);
  show([2, STARTING], [1, READY]);
  await Promise.resolve();
  expect(restarted).toEqual([0]);
  expect(rolling.value).toMatchObject({ replica: 0, done: 0, of: 2 });
  show([2, READY], [1, READY]);
  await asked([0, 1]);
  show([2, READY], [2, READY]);
  await whole;
  expect(rolling.value).toBeUndefined();
});

it("leaves the others alone when one does not come back", async () => {
  show([1, READY], [1, READY]);
  const whole = restartAll("m");
  await asked([0]);
  show([2, FAILED, "the engine ended with code 1"], [1, READY]);
  await whole;
  expect(restarted).toEqual([0]);
  expect(rolling.value).toEqual({
    kind: "stopped",
    model: "m",
    sentence: "Replica 0 was not restarted: The engine ended with code 1. The others were left as they are.",
  });
});

it("tells what the API says when it refuses", async () => {
  useTransport(
    createRouterTransport(({ service }) => {
      service(ReplicaService, {
        restartReplica: () => {
          throw new ConnectError("model m is stopped; start it first.", Code.FailedPrecondition);
        },
      });
    }),
  );
  show([1, READY]);
  await restartAll("m");
  expect(rolling.value).toMatchObject({
    sentence: "Replica 0 was not restarted: Model m is stopped; start it first.",
  });
});
