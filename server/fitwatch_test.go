package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// filledTo is a view whose replicas of 100 tokens have so many at work, of conversations
// of 20.
func filledTo(tokens ...int64) route.View {
	v := route.View{SharedTokens: -1}
	for _, n := range tokens {
		v.Active += int(n / 20)
		v.Replicas = append(v.Replicas, route.ReplicaView{Active: int(n / 20), ActiveTokens: n, Capacity: 100})
	}
	return v
}

// fitStory plays views to a fit, one a second, and returns what it told as "second kind
// replicas".
func fitStory(views func(second int) route.View, seconds int) (told []string) {
	var m modelFit
	start := time.Unix(100_000, 0)
	for s := range seconds {
		v := views(s)
		change := m.look(start.Add(time.Duration(s)*time.Second), v, fullnessOf(v))
		if change.whole {
			told = append(told, fmt.Sprintf("%d whole %t", s, m.whole.on))
		}
		if len(change.began) > 0 {
			told = append(told, fmt.Sprintf("%d began %v", s, change.began))
		}
		if len(change.ended) > 0 {
			told = append(told, fmt.Sprintf("%d ended %v", s, change.ended))
		}
	}
	return told
}

func TestOneReplicaThatThrashesIsTold(t *testing.T) {
	tests := []struct {
		name string
		view func(second int) route.View
		want []string
	}{
		{
			"one among calm ones",
			func(s int) route.View {
				if s >= 10 && s < 200 {
					return filledTo(40, 120, 40, 40)
				}
				return filledTo(40, 40, 40, 40)
			},
			[]string{"40 began [1]", "340 ended [1]"},
		},
		{"for a moment only", func(s int) route.View { return filledTo(40, 120-80*int64(s/20%2)) }, nil},
		{
			"around the bound, never calm",
			func(s int) route.View { return filledTo(20, 110-14*int64(s/40%2)) }, // 96 is not calm
			[]string{"30 began [1]"},
		},
		{
			"the whole model speaks for its replicas",
			func(s int) route.View {
				if s < 100 {
					return filledTo(120, 140)
				}
				return filledTo(20, 140) // one is left over
			},
			[]string{"5 whole true", "105 whole false"},
		},
		{
			"and for those that calm down with it",
			func(s int) route.View {
				if s < 100 {
					return filledTo(120, 140)
				}
				return filledTo(20, 20)
			},
			[]string{"5 whole true", "105 whole false"},
		},
		{
			"a capacity that is not known any more changes nothing",
			func(s int) route.View {
				v := filledTo(20, 140, 20)
				if s >= 100 {
					v.Replicas[1].Capacity = 0
				}
				return v
			},
			[]string{"30 began [1]"},
		},
		{
			"a replica that is taken away",
			func(s int) route.View {
				if s < 100 {
					return filledTo(20, 140, 20)
				}
				return filledTo(20)
			},
			[]string{"30 began [1]"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, fitStory(tt.view, 600)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAdmissionsOwnOvercommitIsNoThrash has admission let those inside outgrow their caches
// by a turn: 8 tokens of 100 beyond, where a turn grows by 8, is told of without admission
// only; one more always is.
func TestAdmissionsOwnOvercommitIsNoThrash(t *testing.T) {
	for _, tt := range []struct {
		tokens  int64
		holding bool
		want    []string
	}{
		{108, true, nil},
		{109, true, []string{"5 whole true"}},
		{108, false, []string{"5 whole true"}},
	} {
		got := fitStory(func(int) route.View {
			v := filledTo(tt.tokens, tt.tokens)
			v.Holding, v.Learned.Growth.Value = tt.holding, 8
			return v
		}, 60)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%d of 100 tokens, holding %t: %s", tt.tokens, tt.holding, diff)
		}
	}
	told := fitStory(func(int) route.View {
		v := filledTo(20, 108)
		v.Holding, v.Learned.Growth.Value = true, 8
		return v
	}, 600)
	if len(told) > 0 {
		t.Errorf("of one replica was told %v", told)
	}
}

// Sixty-four replicas that begin and end to thrash one after the other make no more than
// an event of each kind in five minutes, and none of them is lost.
func TestManyReplicasThatThrashAreNoStorm(t *testing.T) {
	const replicas, seconds = 64, 1800
	told := fitStory(func(s int) route.View {
		tokens := make([]int64, replicas)
		for i := range tokens {
			tokens[i] = 40
			if begin := 12 * i; s >= begin && s < begin+360 {
				tokens[i] = 140
			}
		}
		return filledTo(tokens...)
	}, seconds)
	if len(told) > 2*seconds/300 {
		t.Errorf("%d events in %d s:\n%s", len(told), seconds, strings.Join(told, "\n"))
	}
	for _, kind := range []string{" began ", " ended "} {
		named := 0
		for _, line := range told {
			if _, list, ok := strings.Cut(line, kind); ok {
				named += len(strings.Fields(list))
			}
		}
		if named != replicas {
			t.Errorf("%d replicas were told of as%s, want %d", named, kind, replicas)
		}
	}
}

func TestReplicaThrashMessage(t *testing.T) {
	calm, full := filledTo(40, 120), filledTo(100, 120)
	none := &lmwardenv1.Model{
		Name: "m", Routing: &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_NONE},
		Spec: &lmwardenv1.ModelSpec{KvCacheType: lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8},
	}
	many := filledTo(slices.Repeat([]int64{140}, 20)...)
	all := make([]int, 20)
	for i := range all {
		all[i] = i
	}
	closed := filledTo(40, 120)
	closed.Replicas[0].Closed = true
	tests := []struct {
		name      string
		model     *lmwardenv1.Model
		view      route.View
		over      []int
		want, not []string
	}{
		{
			"another has room",
			&lmwardenv1.Model{Name: "m"},
			calm,
			[]int{1},
			[]string{"Replica 1 of m has 6 conversations", "120 of the 100 tokens", "(120 %)", "to replica 0, which has room for 3 more (lmwarden conversation move m CONVERSATION 0)", "fp8", "60 %"},
			[]string{"admission"},
		},
		{"the one with room takes nobody", none, closed, []int{1}, []string{"Replica 1", "switch admission"}, []string{"move one"}},
		{"none has room", none, full, []int{1}, []string{"Replica 1", "switch admission"}, []string{"move one", "fp8"}},
		{"many", none, many, all, []string{"Replicas 0 (140 %), 1 (140 %)", "7 (140 %) and 12 more of m"}, []string{"8 (140 %)"}},
		{"two", none, filledTo(140, 20, 160), []int{0, 2}, []string{"Replicas 0 (140 %) and 2 (160 %) of m", "to replica 1, which has room for 4 more"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := replicaThrashMessage(tt.model, tt.view, fullnessOf(tt.view), tt.over)
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
	if got := replicaFitsMessage("m", calm, []int{0}); !strings.Contains(got, "2 conversations at work on replica 0 of m fit its cache again: 40 of 100") {
		t.Errorf("%q", got)
	}
	if got := replicaFitsMessage("m", many, all[:2]); !strings.Contains(got, "replicas 0 and 1 of m fit their caches again") {
		t.Errorf("%q", got)
	}
}

// The event of a replica names it; its end does while others are open, and else ends all.
func TestAReplicaThatThrashesIsAnEventWithItsIndex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.create(t, "m", 3)
		for _, fills := range [][]int64{{10, 20, 120}, {10, 120, 120}, {10, 120, 40}, {10, 40, 40}} {
			r.plane.setView("m", filledTo(fills...))
			time.Sleep(fitQuiet + time.Minute)
		}
		page, _ := r.events.Page("m", 0, 100)
		var got []string
		for _, e := range page {
			got = append(got, fmt.Sprint(e.Kind, " ", e.Replica))
		}
		if diff := cmp.Diff([]string{"cache_fits -1", "cache_fits 2", "cache_thrash 1", "cache_thrash 2", "model_added -1"}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestThrashIsCountedByReplica(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newFitMetrics(reg)
	v := filledTo(20, 120)
	m.set("m", v, fullnessOf(v), time.Unix(1000, 0))
	m.crossed("m", true, []int{1})
	if got := gathered(t, reg); got["lmwarden_thrash_total"] != 1 || got["lmwarden_replica_thrash_total"] != 1 {
		t.Errorf("%v", got)
	}
	one := filledTo(20)
	m.set("m", one, fullnessOf(one), time.Unix(1001, 0))
	if got := gathered(t, reg); got["lmwarden_replica_thrash_total"] != 0 || got["lmwarden_replica_fit"] != 0.2 {
		t.Errorf("%v: the replica that is gone has series", got)
	}
}
