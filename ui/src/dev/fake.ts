/**
 * The API over an invented box, in memory. Query of the address: replicas, per (conversations
 * for each replica), held, age (of the engines' figures, in seconds), token (asks for one).
 */
import { clone, create, type DescMessage } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  createRouterTransport,
  type ServiceImpl,
  type Transport,
} from "@connectrpc/connect";
import { withToken } from "../api/transport";
import { GpuService } from "../gen/lmwarden/v1/gpu_service_pb";
import { KeyLimitsSchema, KeyService } from "../gen/lmwarden/v1/key_service_pb";
import { ModelSchema, ModelSpecSchema } from "../gen/lmwarden/v1/model_pb";
import { ModelService } from "../gen/lmwarden/v1/model_service_pb";
import { ReplicaService } from "../gen/lmwarden/v1/replica_service_pb";
import { RoutingCardSchema, RoutingSettingsSchema } from "../gen/lmwarden/v1/routing_pb";
import { RoutingService } from "../gen/lmwarden/v1/routing_service_pb";
import { StatsService } from "../gen/lmwarden/v1/stats_service_pb";
import {
  SystemService,
  type WatchRequest,
  type WatchResponse,
  WatchResponseSchema,
} from "../gen/lmwarden/v1/system_service_pb";
import { describeMessage } from "./describe";
import { World } from "./world";

const settings: Readonly<Record<string, DescMessage>> = {
  "lmwarden.v1.RoutingSettings": RoutingSettingsSchema,
  "lmwarden.v1.ModelSpec": ModelSpecSchema,
  "lmwarden.v1.KeyLimits": KeyLimitsSchema,
};

/** Returns a transport that answers from an invented box. */
export function fakeTransport(query: URLSearchParams): Transport {
  const figure = (name: string, otherwise: number) => Number(query.get(name) ?? otherwise);
  const world = new World({
    replicas: figure("replicas", 4),
    perReplica: figure("per", 4),
    held: figure("held", 2),
    age: figure("age", 2),
  });
  const wantsToken = query.has("token");
  return createRouterTransport(
    ({ service }) => {
      service(SystemService, systemOf(world, wantsToken));
      service(RoutingService, routingOf(world));
      service(ModelService, modelsOf(world));
      service(StatsService, statsOf(world));
      service(ReplicaService, replicasOf());
      service(KeyService, keysOf());
      service(GpuService, { listGpus: () => ({ gpus: world.gpus }) });
    },
    { transport: { interceptors: [withToken] } },
  );
}

function systemOf(world: World, wantsToken: boolean): Partial<ServiceImpl<typeof SystemService>> {
  return {
    getInfo: () => ({ info: world.info }),
    listRecipes: ({ model }) => ({
      recipes: [
        {
          client: "claude-code",
          title: "Claude Code",
          where: "in the shell that starts Claude Code",
          text: `export ANTHROPIC_BASE_URL=${world.info.inferenceUrl}\nexport ANTHROPIC_MODEL=${model}\nclaude`,
        },
      ],
    }),
    describeSettings: ({ message }) => {
      const schema = settings[message];
      if (schema === undefined) throw new ConnectError(`no settings message ${message}`, Code.NotFound);
      return { fields: describeMessage(schema) };
    },
    runDoctor: () => ({
      checks: [
        { name: "engine", ok: true, message: "vllm 0.32.0 answers." },
        {
          name: "shared memory",
          ok: false,
          message: "/dev/shm has 64 MiB.",
          fix: "Mount it with 2 GiB or more.",
        },
      ],
    }),
    listEvents: () => ({ events: world.events }),
    watch: (request, context) =>
      watched(world, request, context.signal, wantsToken && !context.requestHeader.has("Authorization")),
  };
}

async function* watched(world: World, wanted: WatchRequest, stop: AbortSignal, refused: boolean) {
  if (refused) throw new ConnectError("This daemon wants an admin token.", Code.Unauthenticated);
  const say = (part: WatchResponse["part"]) => create(WatchResponseSchema, { part });
  yield say({ case: "info", value: world.info });
  while (!stop.aborted) {
    const models = [clone(ModelSchema, world.model)];
    yield say({ case: "models", value: { $typeName: "lmwarden.v1.WatchModelsPart", models } });
    yield say({
      case: "gpus",
      value: { $typeName: "lmwarden.v1.WatchGpusPart", gpus: world.gpus, message: "" },
    });
    yield say({ case: "events", value: { $typeName: "lmwarden.v1.WatchEventsPart", events: world.events } });
    if (wanted.routing !== "") yield say({ case: "routing", value: clone(RoutingCardSchema, world.card) });
    if (wanted.stats !== undefined) yield say({ case: "stats", value: world.throughput() });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    world.step();
  }
}

function routingOf(world: World): Partial<ServiceImpl<typeof RoutingService>> {
  const conversations = () => world.card.replicas.flatMap((r) => r.conversations);
  return {
    getRouting: () => ({ card: world.card }),
    updateRouting: ({ settings: changed, updateMask, revision }) => {
      if (revision !== world.card.revision) throw new ConnectError("revision is stale", Code.Aborted);
      const merged = clone(RoutingSettingsSchema, world.card.settings ?? create(RoutingSettingsSchema));
      for (const path of updateMask?.paths ?? []) {
        const name = RoutingSettingsSchema.fields.find((f) => f.name === path)?.localName;
        if (name !== undefined)
          Object.assign(merged, { [name]: (changed as unknown as Record<string, unknown>)[name] });
      }
      const auto = merged.spillThreshold === undefined;
      world.card = {
        ...world.card,
        settings: merged,
        revision: world.card.revision + 1n,
        affinity: merged.affinity ?? true,
        spillThreshold: merged.spillThreshold ?? 8,
        spillThresholdAuto: auto,
      };
      return { card: clone(RoutingCardSchema, world.card) };
    },
    listConversations: () => ({ conversations: conversations() }),
    moveConversation: ({ conversation, replica }) => {
      const found = conversations().find((c) => c.id === conversation);
      if (found === undefined) throw new ConnectError("no such conversation", Code.NotFound);
      found.home = replica;
      return { conversation: found };
    },
    forgetConversation: ({ conversation }) => {
      for (const r of world.card.replicas) {
        r.conversations = r.conversations.filter((c) => c.id !== conversation);
      }
      return {};
    },
    explainRequest: ({ id }) => {
      const record = world.card.latest.find((r) => r.id === id);
      if (record === undefined)
        throw new ConnectError(`request ${id} is not in the history any more`, Code.NotFound);
      return { record };
    },
  };
}

/** Three keys, one of them declared; limits of none. */
function keysOf(): Partial<ServiceImpl<typeof KeyService>> {
  const stated = new Map(["*", "alice", "bob"].map((name) => [name, create(KeyLimitsSchema)]));
  const revisions = new Map<string, bigint>();
  const find = (name: string) => {
    const limits = stated.get(name);
    if (limits === undefined) {
      const names = [...stated.keys()].join(", ");
      throw new ConnectError(`there is no key ${name}; there are ${names}`, Code.NotFound);
    }
    const every = stated.get("*");
    return {
      name,
      limits,
      inForce: clone(KeyLimitsSchema, Object.assign(create(KeyLimitsSchema), every, limits)),
      revision: revisions.get(name) ?? 0n,
      declaredIn: name === "bob" ? "/etc/lmwarden.yaml" : "",
    };
  };
  return {
    listKeys: () => ({ keys: [...stated.keys()].map(find) }),
    updateKey: ({ name, limits, updateMask, revision }) => {
      const before = find(name);
      if (revision !== 0n && revision !== before.revision)
        throw new ConnectError("revision is stale", Code.Aborted);
      const after = clone(KeyLimitsSchema, before.limits);
      for (const path of updateMask?.paths ?? []) {
        const field = KeyLimitsSchema.fields.find((f) => f.name === path)?.localName;
        if (field !== undefined)
          Object.assign(after, { [field]: (limits as unknown as Record<string, unknown>)[field] });
      }
      stated.set(name, after);
      revisions.set(name, before.revision + 1n);
      return { key: find(name) };
    },
  };
}

function modelsOf(world: World): Partial<ServiceImpl<typeof ModelService>> {
  return {
    listModels: () => ({ models: [world.model] }),
    getModel: () => ({ model: world.model }),
    createModel: ({ name }) => {
      throw new ConnectError(
        `cards do not suffice for ${name}: GPU 0 to 3 are held by model ${world.model.name}; stop it or choose another layout`,
        Code.FailedPrecondition,
      );
    },
    startModel: () => ({ model: world.model }),
    stopModel: () => ({ model: world.model }),
  };
}

function statsOf(world: World): Partial<ServiceImpl<typeof StatsService>> {
  return {
    listRequests: ({ conversation, failed }) => ({
      requests: failed
        ? []
        : world.card.latest.filter((r) => conversation === "" || r.conversation === conversation),
    }),
  };
}

function replicasOf(): Partial<ServiceImpl<typeof ReplicaService>> {
  return {
    restartReplica: () => ({}),
    async *streamLogs() {
      yield {
        lines: [
          "INFO 10-04 09:12:01 [api_server.py:1890] Starting vLLM API server 0",
          "INFO 10-04 09:12:40 Application startup complete.",
        ],
      };
    },
  };
}
