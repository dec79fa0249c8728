/**
 * An invented box whose figures move: four cards, one model, some conversations. For
 * work on the page without a daemon, and for tests; never part of a build.
 */
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type Gpu, GpuSchema } from "../gen/lmwarden/v1/gpu_service_pb";
import { type Model, ModelSchema, ModelState, ReplicaSchema } from "../gen/lmwarden/v1/model_pb";
import {
  Admission,
  type Conversation,
  ConversationSchema,
  DecisionClass,
  Fit,
  HeldRequestSchema,
  MissCause,
  ReplicaState,
  type RequestRecord,
  RequestRecordSchema,
  type RoutingCard,
  RoutingCardSchema,
  type RoutingReplica,
  RoutingReplicaSchema,
  RoutingSettingsSchema,
} from "../gen/lmwarden/v1/routing_pb";
import { type Throughput, ThroughputSchema } from "../gen/lmwarden/v1/stats_service_pb";
import {
  type Event,
  EventSchema,
  type Info,
  InfoSchema,
  Severity,
} from "../gen/lmwarden/v1/system_service_pb";

/** How the invented box is. */
export interface Scene {
  replicas: number;
  /** Conversations for each replica. */
  perReplica: number;
  held: number;
  /** Age of the engines' figures, in seconds. */
  age: number;
}

export const CAPACITY = 46_080;
export const SHARED = 3_520;
const NAME = "qwen3-4b";

/** A time of whole milliseconds. */
const instant = (milliseconds: number) => timestampFromMs(Math.round(milliseconds));

/** A repeatable series of numbers from 0 to 1. */
export function numbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 16_807) % 2_147_483_647;
    return state / 2_147_483_647;
  };
}

/** The box at one moment after another. */
export class World {
  readonly model: Model;
  readonly gpus: Gpu[];
  readonly events: Event[];
  readonly info: Info;
  card: RoutingCard;
  private readonly random = numbers(7);
  private readonly started = Date.now() - 76 * 3_600_000;
  private sequence = 0;

  constructor(readonly scene: Scene) {
    this.info = this.makeInfo();
    this.card = this.makeCard();
    this.model = this.makeModel();
    this.gpus = this.makeGpus();
    this.events = this.makeEvents();
    for (let i = 0; i < 12; i++) this.decide();
    this.sum();
  }

  /** Moves everything a little. */
  step(): void {
    for (const replica of this.card.replicas) {
      for (const c of replica.conversations) {
        const busy = c.inFlight > 0;
        if (this.random() < 0.2) c.inFlight = busy ? 0 : 1;
        if (busy && c.inFlight === 0) c.contextTokens = (c.contextTokens ?? 0n) + 40n;
      }
    }
    if (this.random() < 0.7) this.decide();
    for (const gpu of this.gpus) gpu.powerWatts = 110 + this.random() * 14;
    this.sum();
  }

  /** Returns the throughput of the last hour. */
  throughput(): Throughput {
    const at = Math.floor(Date.now() / 60_000);
    const wave = numbers(11);
    const buckets = Array.from({ length: 60 }, (_, i) => {
      const height = Math.abs(Math.sin((at - 59 + i) / 9));
      const all = 20_000 + 22_000 * height + wave() * 6_000;
      const hits = 0.82 + 0.08 * Math.sin((at + i) / 5) + wave() * 0.04;
      return {
        start: instant((at - 59 + i) * 60_000),
        cachedPerSecond: all * hits,
        computedPerSecond: all * (1 - hits),
        completionPerSecond: 130 + 220 * height + wave() * 50,
        requests: 80,
      };
    });
    return create(ThroughputSchema, {
      step: { seconds: 60n },
      buckets,
      hitRateHour: 0.861,
      cachedHour: 1_900_000n,
      promptHour: 2_207_000n,
    });
  }

  private makeInfo(): Info {
    return create(InfoSchema, {
      version: "0.1.0",
      hostname: "box-a",
      started: instant(this.started),
      inferenceUrl: "http://127.0.0.1:8000",
      adminUrl: "http://127.0.0.1:8001",
      dataDir: "/var/lib/lmwarden",
      configFile: "/etc/lmwarden/lmwarden.yaml",
      simulated: true,
      cards: `${this.scene.replicas} × RTX A4000`,
    });
  }

  private conversation(home: number): Conversation {
    const own = Math.round(7_600 + this.random() * 5_000);
    return create(ConversationSchema, {
      id: Math.floor(this.random() * 2 ** 48)
        .toString(16)
        .padStart(16, "0")
        .split("")
        .reverse()
        .join(""),
      keySource: "cc-header",
      home,
      contextTokens: BigInt(SHARED + own),
      residentTokens: BigInt(SHARED + own),
      inFlight: this.random() < 0.36 ? 1 : 0,
      turns: BigInt(1 + Math.floor(this.random() * 12)),
      lastActive: instant(Date.now() - this.random() * 90_000),
      admitted: true,
    });
  }

  private makeReplica(index: number): RoutingReplica {
    const extra = index === 0 && this.scene.perReplica < 5 ? 1 : 0;
    const conversations = Array.from(
      { length: this.scene.perReplica + extra - (extra ? 0 : index % 2) },
      () => this.conversation(index),
    );
    return create(RoutingReplicaSchema, {
      index,
      state: ReplicaState.READY,
      counts: { sticky: BigInt(19 + index * 3), placed: 3n, spilled: index === 2 ? 1n : 0n },
      waiting: 0,
      kvUsed: 0.36 + index * 0.01,
      prefixHitRate: 0.69 + ((index * 5) % 17) / 100,
      capacityTokens: BigInt(CAPACITY),
      metricsAge: { seconds: BigInt(this.scene.age) },
      conversations,
    });
  }

  private makeCard(): RoutingCard {
    const replicas = Array.from({ length: this.scene.replicas }, (_, i) => this.makeReplica(i));
    return create(RoutingCardSchema, {
      model: NAME,
      settings: create(RoutingSettingsSchema, { admission: Admission.WORKING_SET }),
      revision: 3n,
      affinity: true,
      spillThreshold: 8,
      spillThresholdAuto: true,
      stickyPercent: 99.1,
      held: this.scene.held,
      queue: Array.from({ length: Math.min(this.scene.held, 16) }, (_, i) =>
        create(HeldRequestSchema, {
          conversation: `${"d2e948af1b0c"[i % 12]}2e948af01234567`,
          tokens: BigInt(10_700 - i * 400),
          arrived: instant(Date.now() - 6_000 + i * 900),
          position: i + 1,
          reason:
            i === 0
              ? "lost its place to one that waited longer; waits for room"
              : "waits for room in a cache",
        }),
      ),
      oldestHeld: { seconds: 6n },
      ...(this.scene.held > 5 && {
        door: {
          message:
            "In the last 5 minutes 7.6 conversations on average waited at the door for room; turns that had to wait did so for 31 s on average. What would let them in: 2 more replicas (one holds about 4 of the present size), or a KV cache of type fp8 where the cards support it (about 16 more), or about 8 fewer at once.",
        },
      }),
      countersSince: instant(this.started),
      replicas,
      sharedTokens: BigInt(SHARED),
      admission: Admission.WORKING_SET,
      learned: {
        tokensPerByte: { value: 0.223, samples: 1204, age: { seconds: 2n } },
        prefillRate: { value: 3080, samples: 96, age: { seconds: 12n } },
        growth: { value: 402, samples: 1010, age: { seconds: 2n } },
        output: { value: 256, samples: 1204, age: { seconds: 2n } },
        service: { value: 6.1, samples: 1204, age: { seconds: 2n } },
        gap: { value: 0.55, samples: 200, age: { seconds: 1n } },
        gapP95: { nanos: 640_000_000 },
        ends: 38,
        keep: { nanos: 610_000_000 },
        spell: { seconds: 90n },
        linger: { seconds: 5n },
        shared: [{ tokens: BigInt(SHARED), samples: 8, references: 31 }],
      },
    });
  }

  private makeModel(): Model {
    return create(ModelSchema, {
      name: NAME,
      spec: { source: "Qwen/Qwen3-4B-Instruct-2507", replicas: this.scene.replicas, maxNumSeqs: 32 },
      routing: this.card.settings,
      revision: 3n,
      running: true,
      status: {
        state: ModelState.READY,
        replicas: this.card.replicas.map((r) =>
          create(ReplicaSchema, {
            model: NAME,
            index: r.index,
            state: ReplicaState.READY,
            since: instant(this.started),
            pid: 4_000 + r.index,
            port: 8_100 + r.index,
            url: `http://127.0.0.1:${8_100 + r.index}`,
            incarnation: 1n,
            gpus: [`GPU-8f1c000${r.index}`],
            capacityTokens: BigInt(CAPACITY),
            engineVersion: "0.32.0",
            command: ["vllm", "serve", "Qwen/Qwen3-4B-Instruct-2507", "--port", String(8_100 + r.index)],
          }),
        ),
        hitRateHour: 0.861,
        firstTokenP50Seconds: 0.48,
        completionTokensPerSecond: 196,
        engineVersion: "0.32.0",
        maxModelLen: 32_768,
      },
    });
  }

  private makeGpus(): Gpu[] {
    return this.card.replicas.map((r) =>
      create(GpuSchema, {
        uuid: `GPU-8f1c000${r.index}-53b2-11ee-8c99-0242ac120002`,
        index: r.index,
        name: "NVIDIA RTX A4000",
        memoryTotalBytes: 16n * 2n ** 30n,
        memoryUsedBytes: BigInt(Math.round(12.9 * 2 ** 30)),
        utilization: 0.7,
        temperatureCelsius: 69 + ((r.index * 3) % 7),
        powerWatts: 117,
        powerLimitWatts: 140,
        model: NAME,
        replica: r.index,
        simulated: true,
      }),
    );
  }

  private makeEvents(): Event[] {
    const event = (id: number, severity: Severity, kind: string, message: string, replica?: number) =>
      create(EventSchema, {
        id: BigInt(id),
        time: instant(Date.now() - (10 - id) * 3_600_000),
        severity,
        kind,
        model: NAME,
        message,
        ...(replica === undefined ? {} : { replica }),
      });
    return [
      event(
        9,
        Severity.WARNING,
        "prompt_changes",
        "Conversation 91c0 (OpenCode) sends a clock in its system prompt: every turn breaks its cache at token 412. Move the clock to the end of the prompt.",
      ),
      event(
        7,
        Severity.NOTE,
        "replica_restarted",
        "Replica 2 was restarted after 14 s without a token. Two conversations moved.",
        2,
      ),
    ];
  }

  /** Adds a decision to the card. */
  private decide(): void {
    const replica = this.card.replicas[Math.floor(this.random() * this.card.replicas.length)];
    const c = replica?.conversations[Math.floor(this.random() * replica.conversations.length)];
    if (replica === undefined || c === undefined) return;
    const spilled = this.random() < 0.1;
    if (replica.counts && !spilled) replica.counts.sticky += 1n;
    c.turns += 1n;
    this.card.latest.unshift(this.record(c, replica.index, spilled));
    this.card.latest.length = Math.min(this.card.latest.length, 16);
  }

  private record(c: Conversation, home: number, spilled: boolean): RequestRecord {
    const replica = spilled ? (home + 1) % this.card.replicas.length : home;
    const first = spilled ? 3.6 : 0.3 + this.random() * 0.3;
    const prompt = c.contextTokens ?? 0n;
    this.sequence += 1;
    return create(RequestRecordSchema, {
      id: `r${this.sequence.toString(36).padStart(7, "0")}`,
      arrived: instant(Date.now() - first * 1000),
      model: NAME,
      requestedModel: "claude-sonnet-4-5",
      path: "/v1/messages",
      replica,
      home,
      decision: spilled ? DecisionClass.SPILLED : DecisionClass.STICKY,
      keySource: c.keySource,
      conversation: c.id,
      turn: c.turns,
      status: 200,
      firstToken: { nanos: Math.round((first % 1) * 1e9), seconds: BigInt(Math.floor(first)) },
      duration: { seconds: 4n },
      promptTokens: prompt,
      cachedTokens: spilled ? BigInt(SHARED) : prompt - 400n,
      completionTokens: 256n,
      miss: spilled ? MissCause.SPILLED : MissCause.UNSPECIFIED,
      terms: this.card.replicas.map((r) => ({
        replica: r.index,
        inFlight: r.inFlight,
        fill: Number(r.residentTokens) / CAPACITY,
        liveConversations: r.conversations.length,
        score: r.inFlight + (8 * Number(r.residentTokens)) / CAPACITY + r.conversations.length,
        eligible: true,
      })),
      attempts: 1,
      streamed: true,
      reason: spilled
        ? `Its home, replica ${home}, had 8 requests in flight, the spill threshold; replica ${replica} had the fewest.`
        : `It went to its home, replica ${home}, which holds its cache.`,
      client: "claude-cli/2.1",
    });
  }

  /** Adds up what follows from the conversations. */
  private sum(): void {
    let working = 0;
    let all = 0;
    for (const r of this.card.replicas) {
      for (const c of r.conversations) c.workingTokens = (c.contextTokens ?? BigInt(SHARED)) - BigInt(SHARED);
      const own = r.conversations.reduce((n, c) => n + Number(c.workingTokens ?? 0n), 0);
      r.activeTokens = BigInt(own + (r.conversations.length > 0 ? SHARED : 0));
      r.residentTokens = r.activeTokens < BigInt(CAPACITY) ? r.activeTokens : BigInt(CAPACITY);
      r.inFlight = r.conversations.reduce((n, c) => n + c.inFlight, 0);
      r.running = r.inFlight;
      r.liveConversations = r.conversations.length;
      r.activeConversations = r.conversations.length;
      r.admittedConversations = r.conversations.length;
      r.admittedTokens = r.activeTokens;
      working += Number(r.activeTokens);
      all += r.conversations.length;
    }
    const fill = working / (CAPACITY * this.card.replicas.length);
    this.card.inFlight = this.card.replicas.reduce((n, r) => n + r.inFlight, 0);
    this.card.liveConversations = all;
    this.card.activeConversations = all;
    this.card.admittedConversations = all;
    this.card.fit = fill > 1 ? Fit.THRASH : fill > 0.8 ? Fit.EDGE : Fit.FITS;
    this.card.roomFor = Math.max(0, Math.floor((CAPACITY * this.card.replicas.length - working) / 10_000));
    const status = this.model.status;
    if (status === undefined) return;
    status.fill = fill;
    status.fit = this.card.fit;
    status.liveConversations = all;
    status.activeConversations = all;
    status.inFlight = this.card.inFlight;
  }
}
