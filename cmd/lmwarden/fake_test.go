package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

func TestMain(m *testing.M) {
	// The demo and the bench start this program again, which here is the test: it is
	// called with a verb then, where go test gives flags.
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		main()
	}
	time.Local = time.UTC // tables print local times
	os.Exit(m.Run())
}

// noon is when all of this happens.
var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(-d)) }

// fakeBox is a daemon that answers the same each time and remembers what it was asked.
type fakeBox struct {
	lmwardenv1connect.UnimplementedModelServiceHandler
	lmwardenv1connect.UnimplementedReplicaServiceHandler
	lmwardenv1connect.UnimplementedRoutingServiceHandler
	lmwardenv1connect.UnimplementedGpuServiceHandler
	lmwardenv1connect.UnimplementedStatsServiceHandler
	lmwardenv1connect.UnimplementedSystemServiceHandler
	lmwardenv1connect.UnimplementedKeyServiceHandler

	url       string
	inference string   // what GetInfo tells
	keys      bool     // and whether a key is asked for
	models    []string // names of those that there are; nil is one
	declared  string   // file that declares them; empty is none
	readOnly  error    // answered to a change of the routing when set

	mu    sync.Mutex
	fail  error // answered to every call when set
	calls []proto.Message
	auth  string // of the last call
}

// newFakeBox starts a fake daemon for the length of a test.
func newFakeBox(t *testing.T) *fakeBox {
	t.Helper()
	box := &fakeBox{inference: "http://127.0.0.1:8000"}
	api := connect.NewServer(box.record)
	lmwardenv1connect.RegisterModelServiceHandler(api, box)
	lmwardenv1connect.RegisterReplicaServiceHandler(api, box)
	lmwardenv1connect.RegisterRoutingServiceHandler(api, box)
	lmwardenv1connect.RegisterGpuServiceHandler(api, box)
	lmwardenv1connect.RegisterStatsServiceHandler(api, box)
	lmwardenv1connect.RegisterSystemServiceHandler(api, box)
	lmwardenv1connect.RegisterKeyServiceHandler(api, box)
	mux := http.NewServeMux()
	connecthttp.Mount(mux, api)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	box.url = server.URL
	return box
}

// record keeps the authorization of each call, and fails it when told so.
func (b *fakeBox) record(next connect.ServerFunc) connect.ServerFunc {
	return func(ctx context.Context, spec connect.Spec, stream connect.ServerStream) error {
		b.mu.Lock()
		if info, ok := connect.CallInfoForServerContext(ctx); ok {
			b.auth = info.RequestHeader().Get("Authorization")
		}
		fail := b.fail
		b.mu.Unlock()
		if fail != nil {
			return fail
		}
		return next(ctx, spec, stream)
	}
}

func (b *fakeBox) asked(m proto.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = append(b.calls, proto.Clone(m))
}

// lastCall returns the last request of a type.
func lastCall[M proto.Message](t *testing.T, b *fakeBox) M {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.calls) - 1; i >= 0; i-- {
		if m, ok := b.calls[i].(M); ok {
			return m
		}
	}
	t.Fatalf("the daemon got no %T", *new(M))
	panic("unreachable")
}

// command is one command line and what came of it.
type command struct {
	code        int
	stdout, err string
}

// lmwarden runs a command line against the fake daemon.
func (b *fakeBox) lmwarden(t *testing.T, args ...string) command {
	t.Helper()
	return lmwarden(t, map[string]string{"LMWARDEN_ADDR": b.url}, "", args...)
}

// lmwarden runs a command line with an environment and a standard input.
func lmwarden(t *testing.T, env map[string]string, stdin string, args ...string) command {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), streams{
		in: bytes.NewBufferString(stdin), out: &stdout, err: &stderr,
		getenv: func(name string) string { return env[name] },
		now:    func() time.Time { return noon },
	}, args)
	return command{code, stdout.String(), stderr.String()}
}

// The box of the tests.

func fakeReplicas() []*lmwardenv1.Replica {
	return []*lmwardenv1.Replica{
		{
			Model: "qwen3-4b", Index: 0, State: lmwardenv1.ReplicaState_REPLICA_STATE_READY, Since: ago(3*time.Hour + 5*time.Minute),
			Pid: 4711, Port: 18100, Url: "http://127.0.0.1:18100", Incarnation: 1, Gpus: []string{"GPU-0"},
			CapacityTokens: proto.Uint64(46_128), EngineVersion: "0.32.0",
			Command: []string{"vllm", "serve", "Qwen/Qwen3-4B-Instruct-2507", "--port", "18100"},
		},
		{
			Model: "qwen3-4b", Index: 1, State: lmwardenv1.ReplicaState_REPLICA_STATE_BACKOFF, Since: ago(42 * time.Second),
			Incarnation: 3, Restarts: 2, Gpus: []string{"GPU-1"},
			Message: "the engine ended with exit code 1 (CUDA out of memory); the next start is in 8 s",
		},
	}
}

func fakeModel() *lmwardenv1.Model {
	return &lmwardenv1.Model{
		Name: "qwen3-4b", Revision: 7, Running: true,
		Spec: &lmwardenv1.ModelSpec{
			Source: "Qwen/Qwen3-4B-Instruct-2507", Aliases: []string{"claude-*"}, Replicas: 2,
			MaxNumSeqs: proto.Uint32(32), ToolCallParser: "hermes",
		},
		Status: &lmwardenv1.ModelStatus{
			State: lmwardenv1.ModelState_MODEL_STATE_DEGRADED, Message: "1 of 2 replicas is ready",
			Replicas: fakeReplicas(), InFlight: 3, ActiveConversations: 5, Fit: lmwardenv1.Fit_FIT_FITS,
			HitRateHour: proto.Float64(0.864), FirstTokenP50Seconds: proto.Float64(0.38),
			CompletionTokensPerSecond: 112.4, EngineVersion: "0.32.0", MaxModelLen: proto.Uint32(32768),
		},
	}
}

func fakeCard() *lmwardenv1.RoutingCard {
	return &lmwardenv1.RoutingCard{
		Model: "qwen3-4b", Settings: &lmwardenv1.RoutingSettings{Affinity: proto.Bool(true)}, Revision: 7,
		Affinity: true, SpillThreshold: 8, SpillThresholdAuto: true, StickyPercent: proto.Float64(96.55), InFlight: 3,
		Held: 3, OldestHeld: durationpb.New(38 * time.Second),
		Queue: []*lmwardenv1.HeldRequest{
			{Conversation: "d2e948af1b0c7750", Tokens: 10_700, Arrived: ago(38 * time.Second), Position: 1, Reason: "lost its place to one that waited longer; waits for room"},
			{Conversation: "48af0c77d2e91b50", Tokens: 9_900, Arrived: ago(12 * time.Second), Position: 2, Reason: "waits for room in a cache"},
		},
		Door:          &lmwardenv1.DoorPressure{Message: "In the last 5 minutes 2.4 conversations on average waited at the door for room. What would let them in: 1 more replica (one holds about 4 of the present size), or about 3 fewer at once."},
		CountersSince: ago(3 * time.Hour), Fit: lmwardenv1.Fit_FIT_EDGE, RoomFor: proto.Uint32(1), ActiveConversations: 5, Learned: &lmwardenv1.Learned{
			PrefillRate: &lmwardenv1.Measure{Value: 3080, Samples: 96, Age: durationpb.New(12 * time.Second)},
			Linger:      durationpb.New(5 * time.Second), Ends: 3,
			Shared: []*lmwardenv1.SharedPrompt{{Tokens: 3500, Samples: 8, References: 31}},
		},
		Replicas: []*lmwardenv1.RoutingReplica{
			{
				Index: 0, State: lmwardenv1.ReplicaState_REPLICA_STATE_READY, InFlight: 3,
				Counts:  &lmwardenv1.DecisionCounts{Sticky: 84, Placed: 12, Spilled: 2, Rehomed: 1, Off: 4},
				Running: proto.Uint32(3), Waiting: proto.Uint32(0), KvUsed: proto.Float64(0.412), PrefixHitRate: proto.Float64(0.822),
				CapacityTokens: proto.Uint64(46_128), ActiveTokens: 38_900, ResidentTokens: 41_200, ActiveConversations: 5, Fit: lmwardenv1.Fit_FIT_EDGE,
				MetricsAge: durationpb.New(900 * time.Millisecond),
			},
			{Index: 1, State: lmwardenv1.ReplicaState_REPLICA_STATE_BACKOFF},
		},
	}
}

func fakeRecord() *lmwardenv1.RequestRecord {
	return &lmwardenv1.RequestRecord{
		Id: "r1", Arrived: ago(time.Minute), Model: "qwen3-4b", RequestedModel: "claude-sonnet-4-5", Path: "/v1/messages",
		Replica: proto.Uint32(0), Home: proto.Uint32(1), Decision: lmwardenv1.DecisionClass_DECISION_CLASS_SPILLED,
		KeySource: "cc-header", Conversation: "8f1c0a9be2d47750", Turn: 4, Status: 200, Attempts: 1, Streamed: true,
		FirstToken: durationpb.New(2100 * time.Millisecond), Duration: durationpb.New(9 * time.Second),
		PromptTokens: proto.Uint64(12_400), CachedTokens: proto.Uint64(3_488), CompletionTokens: proto.Uint64(256),
		Miss: lmwardenv1.MissCause_MISS_CAUSE_SPILLED, Client: "claude-cli/2.1", Reason: "home 1 had 8 requests in flight, the threshold is 8",
		Terms: []*lmwardenv1.ScoreTerms{
			{Replica: 0, InFlight: 3, Fill: proto.Float64(0.4), LiveConversations: 5, Score: 11.2, Eligible: true},
			{Replica: 1, InFlight: 8, LiveConversations: 9, Score: 21},
		},
	}
}
