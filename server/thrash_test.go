package server

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// overfull is a model of two replicas of 100 tokens whose six conversations of 30 and
// the shared 20 on each need 220.
func overfull() route.View {
	row := route.ReplicaView{Active: 3, ActiveTokens: 110, Capacity: 100}
	return route.View{Active: 6, SharedTokens: 20, Replicas: []route.ReplicaView{row, row}}
}

func TestThrashMessageAdvisesFromFigures(t *testing.T) {
	const (
		fewer  = "run about 1 fewer at once (the mean one takes 30 tokens)"
		door   = "switch admission to working_set"
		fp8    = "set kv_cache_type to fp8"
		layout = "fewer, larger replicas"
	)
	tests := []struct {
		name      string
		model     *lmwardenv1.Model
		one       bool
		want, not []string
	}{
		{"default settings", &lmwardenv1.Model{Name: "m"}, false, []string{"220 of the 200 tokens", "(110 %)", fewer, fp8, "take 55 %", layout}, []string{door}},
		{
			"without admission",
			&lmwardenv1.Model{Name: "m", Routing: &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_NONE}},
			false,
			[]string{fewer, door, fp8, layout},
			nil,
		},
		{
			"fp8 already",
			&lmwardenv1.Model{Name: "m", Spec: &lmwardenv1.ModelSpec{KvCacheType: lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8}},
			false,
			[]string{fewer, layout},
			[]string{fp8},
		},
		{
			"engines of somebody else",
			&lmwardenv1.Model{Name: "m", Spec: &lmwardenv1.ModelSpec{ReplicaMode: lmwardenv1.ReplicaMode_REPLICA_MODE_REMOTE}},
			false,
			[]string{fewer, "run its engines with --kv-cache-dtype fp8", "take 55 %"},
			[]string{fp8, layout},
		},
		{"a lone replica cannot be merged", &lmwardenv1.Model{Name: "m"}, true, []string{fewer, fp8}, []string{layout}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := overfull()
			if tt.one {
				v.Replicas, v.Active = v.Replicas[:1], 3
			}
			got := thrashMessage(tt.model, v, fullnessOf(v))
			for _, s := range tt.want {
				if !strings.Contains(got, s) {
					t.Errorf("%q is missing in %q", s, got)
				}
			}
			for _, s := range tt.not {
				if strings.Contains(got, s) {
					t.Errorf("%q does not apply: %q", s, got)
				}
			}
		})
	}
}

func TestAdmissionMessage(t *testing.T) {
	on := route.DefaultSettings()
	on.Admission = route.AdmissionWorkingSet
	off := on
	off.Affinity = false
	known, unknown := route.ReplicaView{Capacity: 100}, route.ReplicaView{}
	tests := []struct {
		name string
		set  route.Settings
		view route.View
		want string
	}{
		{"off is no trouble", route.DefaultSettings(), route.View{Replicas: []route.ReplicaView{unknown}}, ""},
		{"works", on, route.View{Holding: true, Replicas: []route.ReplicaView{known}}, ""},
		{"nothing placed yet", on, route.View{}, ""},
		{"no capacity", on, route.View{Replicas: []route.ReplicaView{known, unknown}}, "replica 1 has not told"},
		{"no affinity", off, route.View{Replicas: []route.ReplicaView{known}}, "affinity is off"},
		{"stale figures", on, route.View{Replicas: []route.ReplicaView{known}}, "older than 10 s"},
	}
	for _, tt := range tests {
		got := admissionMessage(tt.set, tt.view)
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFitMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newFitMetrics(reg)
	now := time.Unix(1000, 0)
	v := overfull()
	v.Held, v.OldestHeld = 2, now.Add(-42*time.Second)
	m.set("m", v, fullnessOf(v), now)
	for _, tt := range []struct {
		name string
		got  float64
		want float64
	}{
		{"fit", gathered(t, reg)["lmwarden_fit"], 1.1},
		{"oldest", gathered(t, reg)["lmwarden_queue_oldest_seconds"], 42},
		{"room", gathered(t, reg)["lmwarden_room_conversations"], 0},
		{"thrash", gathered(t, reg)["lmwarden_thrash_total"], 0},
		{"fit of both replicas", gathered(t, reg)["lmwarden_replica_fit"], 2.2},
		{"thrash of both replicas", gathered(t, reg)["lmwarden_replica_thrash_total"], 0},
	} {
		if tt.got != tt.want {
			t.Errorf("%s is %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	unknown := route.View{Replicas: []route.ReplicaView{{Active: 1, ActiveTokens: 10}}}
	m.set("m", unknown, fullnessOf(unknown), now)
	if got := gathered(t, reg); len(got) != 3 || got["lmwarden_queue_oldest_seconds"] != 0 {
		t.Errorf("series %v; a figure that is not known has none, and nobody waits", got)
	}
	m.dropIf(func(string) bool { return true })
	if got := gathered(t, reg); len(got) != 0 {
		t.Errorf("%v are left of a model that is gone", got)
	}
}

// gathered returns the values of all series, by name, of one model each.
func gathered(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			out[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}
