package server

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/supervisor"
)

func spec(index int, arg string, cards ...string) supervisor.Spec {
	return supervisor.Spec{ID: supervisor.ReplicaID{Model: "m", Index: index}, Args: []string{arg}, GPUs: cards}
}

func statusOf(s supervisor.Spec, state supervisor.State, life uint64) supervisor.Status {
	return supervisor.Status{ID: s.ID, State: state, Incarnation: life, GPUs: s.GPUs}
}

// shape writes specs as "index:arg".
func shape(specs []supervisor.Spec) []string {
	var out []string
	for _, s := range specs {
		out = append(out, fmt.Sprintf("%d:%s", s.ID.Index, s.Args[0]))
	}
	return out
}

func TestRollReplacesOneByOne(t *testing.T) {
	r := newRollout()
	old := []supervisor.Spec{spec(0, "old", "A"), spec(1, "old", "B"), spec(2, "old", "C")}
	wanted := []supervisor.Spec{spec(0, "new", "A"), spec(1, "new", "B"), spec(2, "new", "C")}
	st := []supervisor.Status{statusOf(old[0], supervisor.Ready, 1), statusOf(old[1], supervisor.Ready, 1), statusOf(old[2], supervisor.Ready, 1)}
	steps := []struct {
		why    string
		wanted []supervisor.Spec
		change func()
		want   []string
	}{
		{"all new ones start at once", old, func() {}, []string{"0:old", "1:old", "2:old"}},
		{"the first one is replaced", wanted, func() {}, []string{"0:new", "1:old", "2:old"}},
		{"its status is still that of the engine before", wanted, func() {}, []string{"0:new", "1:old", "2:old"}},
		{"it starts", wanted, func() { st[0].State, st[0].Incarnation = supervisor.Starting, 2 }, []string{"0:new", "1:old", "2:old"}},
		{"it failed: the roll stops", wanted, func() { st[0].State = supervisor.Failed }, []string{"0:new", "1:old", "2:old"}},
		{"one that does not serve has nothing to lose", wanted, func() { st[2].State = supervisor.Backoff }, []string{"0:new", "1:old", "2:new"}},
		{"the first one is ready: the next goes", wanted, func() { st[0].State = supervisor.Ready }, []string{"0:new", "1:new", "2:new"}},
	}
	for _, step := range steps {
		step.change()
		statuses := st
		if step.wanted[0].Args[0] == "old" {
			statuses = nil
		}
		if diff := cmp.Diff(step.want, shape(r.next(step.wanted, statuses))); diff != "" {
			t.Fatalf("%s:\n%s", step.why, diff)
		}
	}
}

func TestRollWaitsForCards(t *testing.T) {
	r := newRollout()
	old := []supervisor.Spec{spec(0, "tp1", "A"), spec(1, "tp1", "B")}
	r.next(old, nil)
	wanted := []supervisor.Spec{spec(0, "tp2", "A", "B")}
	running := []supervisor.Status{statusOf(old[0], supervisor.Ready, 1), statusOf(old[1], supervisor.Ready, 1)}
	if got := r.next(wanted, running); len(got) != 0 {
		t.Fatalf("card B is still held by replica 1, and %v was applied", shape(got))
	}
	stopping := []supervisor.Status{statusOf(old[1], supervisor.Stopping, 1)}
	if got := r.next(wanted, stopping); len(got) != 0 {
		t.Fatalf("replica 1 still stops, and %v was applied", shape(got))
	}
	if diff := cmp.Diff([]string{"0:tp2"}, shape(r.next(wanted, nil))); diff != "" {
		t.Error(diff)
	}
}

// Whatever the states are, a roll never has two applied specs on one card, never
// applies what was not wanted before or now, and reaches what is wanted once every
// replica gets ready.
func TestRollProperties(t *testing.T) {
	cards := []string{"A", "B", "C", "D"}
	draw := func(t *rapid.T, name string) []supervisor.Spec {
		tp := rapid.SampledFrom([]int{1, 2}).Draw(t, name+" tp")
		n := rapid.IntRange(0, len(cards)/tp).Draw(t, name+" replicas")
		var specs []supervisor.Spec
		for i := range n {
			specs = append(specs, spec(i, fmt.Sprintf("%s-tp%d", name, tp), cards[i*tp:(i+1)*tp]...))
		}
		return specs
	}
	rapid.Check(t, func(t *rapid.T) {
		r := newRollout()
		before, after := draw(t, "before"), draw(t, "after")
		box := newFakeEngines()
		for range 3 {
			box.Apply(r.next(before, box.Status()))
		}
		states := rapid.SliceOfN(rapid.SampledFrom([]supervisor.State{supervisor.Ready, supervisor.Starting, supervisor.Failed}), 4, 4).Draw(t, "states")
		for _, st := range box.Status() {
			box.set(st.ID, func(s *supervisor.Status) { s.State = states[s.ID.Index] })
		}
		var applied []supervisor.Spec
		for range 12 {
			applied = r.next(after, box.Status())
			holder := map[string]int{}
			for _, s := range applied {
				for _, card := range s.GPUs {
					if other, taken := holder[card]; taken {
						t.Fatalf("card %s has replicas %d and %d", card, other, s.ID.Index)
					}
					holder[card] = s.ID.Index
				}
			}
			box.Apply(applied)
		}
		if diff := cmp.Diff(after, applied); diff != "" {
			t.Fatalf("after 12 passes:\n%s", diff)
		}
	})
}
