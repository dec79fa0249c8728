package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
)

// doorStory looks at a door once a second and returns the seconds in which it changed.
func doorStory(waiting func(second int) int, seconds int) (changes []int, d *doorLog) {
	d = &doorLog{}
	start := time.Unix(100_000, 0)
	for s := range seconds {
		if d.look(start.Add(time.Duration(s)*time.Second), waiting(s)) {
			changes = append(changes, s)
		}
	}
	return changes, d
}

func TestDoorIsCrowdedWhenSomebodyWaitsMostOfTheTime(t *testing.T) {
	always := func(int) int { return 3 }
	tests := []struct {
		name     string
		waiting  func(second int) int
		from, to int // second in which the one change comes, at least and at most; 0 for none
	}{
		{"always", always, 240, 250},
		{"never", func(int) int { return 0 }, 0, 0},
		{"a burst of two minutes", func(s int) int { return 40 * (1 - min(s/120, 1)) }, 0, 0},
		{"half of the time", func(s int) int { return s / 30 % 2 }, 0, 0},
		{"nine tenths of the time", func(s int) int { return min(s%10, 1) }, 260, 300},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changes, d := doorStory(tt.waiting, 1200)
			switch {
			case tt.from == 0 && len(changes) > 0:
				t.Errorf("it changed at %v", changes)
			case tt.from > 0 && (len(changes) != 1 || changes[0] < tt.from || changes[0] > tt.to || !d.crowded):
				t.Errorf("it changed at %v, want once between %d and %d", changes, tt.from, tt.to)
			}
		})
	}
	changes, d := doorStory(func(s int) int { return 3 * (1 - min(s/600, 1)) }, 1200)
	if len(changes) != 2 || changes[1] < 600+230 || changes[1] > 600+250 || d.crowded {
		t.Errorf("it changed at %v, want a second time some 240 s after the last one went", changes)
	}
}

func TestDoorMeanIsOverWhatWasSeen(t *testing.T) {
	_, d := doorStory(func(s int) int { return 2 + 4*(s/10%2) }, 261) // 2 and 6 in turn
	if share, mean := d.figures(); share < 0.8 || mean < 3.8 || mean > 4.2 {
		t.Errorf("share %.2f, mean %.2f, want 4 on average", share, mean)
	}
	// A daemon that stood still for an hour has not seen who waited.
	d.look(d.at.Add(time.Hour), 0)
	if share, _ := d.figures(); share > 0.05 {
		t.Errorf("%.2f of the time somebody waited, by a look at ten seconds of it", share)
	}
}

// Eight wait, replicas of 100 tokens hold four conversations of 20 beside the shared 20;
// with twice as much they hold nine.
func TestPressureAdvisesFromFigures(t *testing.T) {
	v := filledTo(100, 100)
	v.SharedTokens = 20
	v.Active = 8
	for i := range v.Replicas {
		v.Replicas[i].Active = 4
	}
	wait := stats.Quantiles{Count: 5, Mean: 37 * time.Second}
	p := pressureOf(&lmwardenv1.Model{Name: "m"}, v, fullnessOf(v), 0.9, 8.2, wait)
	if p.GetMoreReplicas() != 3 || p.GetReplicaHolds() != 4 || p.GetFp8More() != 10 || p.GetMeanWait().AsDuration() != 37*time.Second {
		t.Errorf("%v", p)
	}
	for _, s := range []string{"last 5 minutes 8.2 conversations on average", "37 s on average", "3 more replicas (one holds about 4", "fp8 where the cards support it (about 10 more)", "about 9 fewer"} {
		if !strings.Contains(p.GetMessage(), s) {
			t.Errorf("%q is missing in %q", s, p.GetMessage())
		}
	}
	fp8 := &lmwardenv1.Model{Spec: &lmwardenv1.ModelSpec{KvCacheType: lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8}}
	if p := pressureOf(fp8, v, fullnessOf(v), 0.9, 3, stats.Quantiles{}); p.Fp8More != nil || p.MeanWait != nil || strings.Contains(p.GetMessage(), "fp8") || !strings.Contains(p.GetMessage(), "1 more replica (") {
		t.Errorf("%v", p)
	}
	v.Reserve = 7 // what each place leaves for growth
	if p := pressureOf(&lmwardenv1.Model{Name: "m"}, v, fullnessOf(v), 0.9, 8.2, wait); p.GetReplicaHolds() != 2 || p.GetMoreReplicas() != 5 || p.GetFp8More() != 8 {
		t.Errorf("with room for growth: %v", p)
	}
	large := filledTo(100, 100)
	large.Active, large.SharedTokens, large.Reserve = 2, -1, 18
	for i := range large.Replicas {
		large.Replicas[i].Active, large.Replicas[i].ActiveTokens = 1, 85
	}
	if p := pressureOf(&lmwardenv1.Model{Name: "m"}, large, fullnessOf(large), 0.9, 2.5, wait); p.GetReplicaHolds() != 1 || p.GetMoreReplicas() != 3 || p.Fp8More == nil || p.GetFp8More() != 0 {
		t.Errorf("one conversation fills a cache: %v", p)
	}
	v.Replicas[1].Capacity = 0
	if p := pressureOf(fp8, v, fullnessOf(v), 0.9, 3, wait); p.MoreReplicas != nil || p.Fp8More != nil || !strings.Contains(p.GetMessage(), "about 3 fewer") {
		t.Errorf("a capacity is not known: %v", p)
	}
	empty := route.View{Replicas: []route.ReplicaView{{Capacity: 100}}}
	if p := pressureOf(fp8, empty, fullnessOf(empty), 0.9, 3, wait); p.MoreReplicas != nil || p.ReplicaHolds != nil {
		t.Errorf("no size is known: %v", p)
	}
}

func TestCrowdedDoorIsOnTheCardAndTwoEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.create(t, "m", 2)
		door := func() *lmwardenv1.DoorPressure {
			t.Helper()
			resp, err := r.routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			return resp.GetCard().GetDoor()
		}
		v := filledTo(80, 80)
		v.Waiting = 4
		r.plane.setView("m", v)
		time.Sleep(3 * time.Minute)
		if p := door(); p != nil {
			t.Errorf("after three minutes: %v", p)
		}
		r.stats.Record(proxy.Record{Model: "m", Decided: true, Arrived: time.Now(), Decision: route.Decision{Wait: 20 * time.Second}})
		r.stats.Record(proxy.Record{Model: "m", Decided: true, Arrived: time.Now()}) // did not wait
		time.Sleep(90 * time.Second)
		p := door()
		if p.GetMeanWaiting() != 4 || p.GetShare() < 0.8 || p.GetMeanWait().AsDuration() != durationpb.New(20*time.Second).AsDuration() {
			t.Fatalf("after four and a half minutes: %v", p)
		}
		r.plane.setView("m", filledTo(80, 80))
		time.Sleep(5 * time.Minute)
		if p := door(); p != nil {
			t.Errorf("nobody waits for five minutes: %v", p)
		}
		page, _ := r.events.Page("m", 0, 100)
		if len(page) != 3 || page[1].Kind != "door_crowded" || page[0].Kind != "door_calm" {
			t.Fatalf("events %v", page)
		}
		if m := page[1].Message; !strings.HasPrefix(m, "In the last 5 minutes 4.0 conversations on average waited at the door of m for room") {
			t.Errorf("%q", m)
		}
		if _, err := r.models.DeleteModel(t.Context(), &lmwardenv1.DeleteModelRequest{Name: "m"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * heartbeat)
		r.loop.doors.mu.Lock()
		defer r.loop.doors.mu.Unlock()
		if len(r.loop.doors.logs) != 0 {
			t.Error("the door of a deleted model is remembered")
		}
	})
}
