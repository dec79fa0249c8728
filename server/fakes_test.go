package server

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connectinprocess"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/server/store"
	"github.com/lmwarden/lmwarden/supervisor"
	"github.com/lmwarden/lmwarden/supervisor/gpu"
)

// fakePlane is a proxy that remembers what it was told.
type fakePlane struct {
	mu            sync.Mutex
	snap          *proxy.Snapshot
	views         map[string]route.View
	conversations []route.ConversationView
	cuts          map[proxy.ReplicaID]int // requests that a replica has when it is drained
	trials        []*route.Trial          // as begun and, nil, ended
	breaks        []proxy.PrefixBreaks
}

func (p *fakePlane) Apply(s *proxy.Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.snap = s
}

func (p *fakePlane) keys() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snap.Keys
}

// tenants returns the limits of keys as applied.
func (p *fakePlane) tenants() map[string]proxy.Limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.snap.TenantLimits
}

func (p *fakePlane) model(t *testing.T, name string) proxy.Model {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.snap.Models {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("the proxy does not know %s", name)
	return proxy.Model{}
}

func (p *fakePlane) View(model string) (route.View, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.views[model]
	return v, ok
}

func (p *fakePlane) setView(model string, v route.View) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.views[model] = v
}

func (p *fakePlane) Conversations(_ string, f func(route.ConversationView) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conversations {
		if !f(c) {
			break
		}
	}
	return true
}

func (p *fakePlane) Compare(_ string, t *route.Trial) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trials = append(p.trials, t)
	return nil
}

func (p *fakePlane) PrefixBreaks(string) []proxy.PrefixBreaks {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.breaks
}

func (p *fakePlane) find(key route.Key) int {
	return slices.IndexFunc(p.conversations, func(c route.ConversationView) bool { return c.Key == key })
}

func (p *fakePlane) Move(_ string, key route.Key, replica int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(key)
	if i < 0 {
		return proxy.ErrUnknownConversation
	}
	p.conversations[i].Home = replica
	return nil
}

func (p *fakePlane) Forget(_ string, key route.Key) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := p.find(key)
	if i < 0 {
		return proxy.ErrUnknownConversation
	}
	p.conversations = slices.Delete(p.conversations, i, i+1)
	return nil
}

// InFlight is always 0.
func (p *fakePlane) InFlight(proxy.ReplicaID) int { return 0 }

// Drain takes a replica out of rotation for good, and cuts what cuts says.
func (p *fakePlane) Drain(_ context.Context, id proxy.ReplicaID) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.snap.Models {
		if slices.ContainsFunc(m.Replicas, func(r proxy.Replica) bool { return r.ID == id }) {
			return p.cuts[id], nil
		}
	}
	return 0, proxy.ErrUnknownReplica
}

// fakeEngines is a supervisor whose replicas are ready as soon as they are wanted,
// unless hold is set. Those that are not wanted any more are seen stopping, with their
// cards, at least once, and until linger is taken back.
type fakeEngines struct {
	mu       sync.Mutex
	specs    map[supervisor.ReplicaID]supervisor.Spec
	status   map[supervisor.ReplicaID]supervisor.Status
	applies  [][]supervisor.Spec // those that changed something
	hold     bool                // new lives stay in the state starting
	linger   bool                // those that stop do not end
	restarts int
}

func newFakeEngines() *fakeEngines {
	return &fakeEngines{specs: map[supervisor.ReplicaID]supervisor.Spec{}, status: map[supervisor.ReplicaID]supervisor.Status{}}
}

func (e *fakeEngines) Apply(specs []supervisor.Spec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seen := map[supervisor.ReplicaID]bool{}
	changed := false
	for _, s := range specs {
		seen[s.ID] = true
		if was, ok := e.specs[s.ID]; ok && slices.Equal(was.Args, s.Args) && slices.Equal(was.GPUs, s.GPUs) {
			continue
		}
		changed = true
		e.specs[s.ID] = s
		e.begin(s)
	}
	for id := range e.specs {
		if !seen[id] {
			delete(e.specs, id)
			st := e.status[id]
			st.State = supervisor.Stopping
			e.status[id] = st
			changed = true
		}
	}
	if changed {
		e.applies = append(e.applies, slices.Clone(specs))
	}
}

// changes returns how often something was changed.
func (e *fakeEngines) changes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.applies)
}

// begin starts a new life. e.mu must be held.
func (e *fakeEngines) begin(s supervisor.Spec) {
	st := supervisor.Status{
		ID: s.ID, State: supervisor.Ready, Since: time.Now(), GPUs: s.GPUs, Command: s.Args, LastExit: -1,
		Incarnation: e.status[s.ID].Incarnation + 1, PID: 4000 + s.ID.Index, Port: 18100 + s.ID.Index,
		URL: fmt.Sprintf("http://127.0.0.1:%d", 18100+s.ID.Index),
	}
	capacity, seqs := int64(100_000), int64(32)
	st.Engine = supervisor.EngineFigures{At: time.Now(), Version: "0.32.0", CapacityTokens: &capacity, MaxNumSeqs: &seqs}
	if e.hold {
		st.State, st.Phase = supervisor.Starting, "loading weights"
	}
	e.status[s.ID] = st
}

func (e *fakeEngines) set(id supervisor.ReplicaID, change func(*supervisor.Status)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.status[id]
	change(&st)
	e.status[id] = st
}

func (e *fakeEngines) setHold(hold bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hold = hold
}

func (e *fakeEngines) setLinger(linger bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.linger = linger
}

func (e *fakeEngines) Restart(id supervisor.ReplicaID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.specs[id]
	if !ok {
		return fmt.Errorf("no replica %v", id)
	}
	e.restarts++
	e.begin(s)
	return nil
}

func (e *fakeEngines) Status() []supervisor.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []supervisor.Status
	for id, st := range e.status {
		out = append(out, st)
		if st.State == supervisor.Stopping && !e.linger {
			delete(e.status, id)
		}
	}
	slices.SortFunc(out, func(a, b supervisor.Status) int { return a.ID.Index - b.ID.Index })
	return out
}

func (e *fakeEngines) Logs(_ context.Context, id supervisor.ReplicaID, q supervisor.LogQuery, yield func([]supervisor.LogLine) error) error {
	if id.Index != 0 {
		return fmt.Errorf("replica %d: %w", id.Index, supervisor.ErrNoLog)
	}
	lines := []supervisor.LogLine{{Incarnation: 1, Text: "died"}, {Incarnation: 2, Text: "loading"}, {Incarnation: 2, Text: "ready"}}
	return yield(lines[max(0, len(lines)-q.Tail):])
}

func (e *fakeEngines) WaitStopped(ctx context.Context, model string) error {
	for slices.ContainsFunc(e.Status(), func(st supervisor.Status) bool { return st.ID.Model == model }) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// rig is a control plane over fakes, with its clients.
type rig struct {
	*control
	plane   *fakePlane
	engines *fakeEngines

	models   lmwardenv1connect.ModelServiceClient
	replicas lmwardenv1connect.ReplicaServiceClient
	routing  lmwardenv1connect.RoutingServiceClient
	statsAPI lmwardenv1connect.StatsServiceClient
	gpusAPI  lmwardenv1connect.GpuServiceClient
	system   lmwardenv1connect.SystemServiceClient
	keysAPI  lmwardenv1connect.KeyServiceClient
}

// newRig starts a control plane on a box of four simulated cards.
func newRig(t *testing.T, cfg *lmwardenv1.Config) *rig {
	t.Helper()
	if cfg == nil {
		cfg = &lmwardenv1.Config{}
	}
	cfg = proto.CloneOf(cfg)
	cfg.DataDir = t.TempDir()
	cfg = withDefaults(cfg)
	st, err := store.Open(filepath.Join(cfg.GetDataDir(), databaseFile), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{
		plane:   &fakePlane{views: map[string]route.View{}},
		engines: newFakeEngines(),
	}
	r.control = &control{
		info:    &lmwardenv1.Info{Version: "test", Started: timestamppb.Now()},
		cfg:     cfg,
		log:     zerolog.New(zerolog.NewTestWriter(t)),
		plane:   r.plane,
		engines: r.engines,
		cards:   &cards{reader: gpu.NewSimulated(4, "NVIDIA RTX A4000", 16<<30)},
		stats:   stats.NewCollector(),
		events:  stats.NewEvents(),
		drained: newDrained(),
		now:     time.Now,
	}
	r.control.comparisons = newComparisons(r.plane, r.control.events)
	if r.access.keys, err = openKeyring(cfg.GetInferenceAuth().GetKeysFile()); err != nil {
		t.Fatal(err)
	}
	loop := newReconciler(r.control, nil, nil)
	r.loop, loop.engines = loop, r.engines
	models, _, err := openCatalog(st, cfg, "/etc/lmwarden.yaml", loop.wake)
	if err != nil {
		t.Fatal(err)
	}
	r.control.models, loop.models = models, models
	limits, _, _, err := openKeyLimits(st, r.access.keys, cfg, "/etc/lmwarden.yaml", loop.wake)
	if err != nil {
		t.Fatal(err)
	}
	r.control.limits, loop.limits = limits, limits
	ctx, cancel := context.WithCancel(t.Context())
	go loop.run(ctx)
	t.Cleanup(func() {
		cancel()
		<-loop.done
		r.stats.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	r.dial(connect.NewClient(connectinprocess.New(newAPI(r.control, nil))))
	return r
}

func (r *rig) dial(c *connect.Client) {
	r.models = lmwardenv1connect.NewModelServiceClient(c)
	r.replicas = lmwardenv1connect.NewReplicaServiceClient(c)
	r.routing = lmwardenv1connect.NewRoutingServiceClient(c)
	r.statsAPI = lmwardenv1connect.NewStatsServiceClient(c)
	r.gpusAPI = lmwardenv1connect.NewGpuServiceClient(c)
	r.system = lmwardenv1connect.NewSystemServiceClient(c)
	r.keysAPI = lmwardenv1connect.NewKeyServiceClient(c)
}

// create makes a model of so many replicas.
func (r *rig) create(t *testing.T, name string, replicas uint32) *lmwardenv1.Model {
	t.Helper()
	resp, err := r.models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{
		Name: name,
		Spec: &lmwardenv1.ModelSpec{Source: "Qwen/Qwen3-4B", Replicas: replicas, MaxNumSeqs: proto.Uint32(32)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetModel()
}
