package route

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// onAndOff compares affinity on, arm 0, with off, arm 1.
func onAndOff(id uint32, seed uint64) *Trial {
	t := &Trial{ID: id, Seed: seed, Arms: [2]Settings{DefaultSettings(), DefaultSettings()}}
	t.Arms[1].Affinity = false
	return t
}

// TestTrialAssignsConversations runs conversations of three turns: each stays in its
// arm, the arms are about equally large, and a seed gives the same assignment again.
func TestTrialAssignsConversations(t *testing.T) {
	arms := func(seed uint64) (out []int) {
		b := newBox(t, 2, DefaultSettings())
		b.c.SetTrial(b.now, onAndOff(7, seed))
		for n := range 400 {
			for turn := range 3 {
				d := b.turn(turnOf(n))
				if d.Trial != 7 {
					t.Fatalf("conversation %d takes part in trial %d", n, d.Trial)
				}
				if off := d.Class == ClassOff; off != (d.Arm == 1) {
					t.Fatalf("arm %d was decided as %v", d.Arm, d.Class)
				}
				if turn == 0 {
					out = append(out, d.Arm)
				} else if d.Arm != out[n] {
					t.Fatalf("conversation %d changed its arm", n)
				}
			}
		}
		return out
	}
	first, again, other := arms(1), arms(1), arms(2)
	ones, same := 0, 0
	for n := range first {
		ones += first[n]
		if first[n] != again[n] {
			t.Fatalf("conversation %d is in another arm with the same seed", n)
		}
		if first[n] == other[n] {
			same++
		}
	}
	if ones < 160 || ones > 240 || same < 140 || same > 260 {
		t.Errorf("%d of 400 in arm 1, %d alike with another seed", ones, same)
	}
}

// TestTrialLeavesOthersAlone checks who takes no part: older conversations, side calls,
// requests without a conversation, and everybody after the end.
func TestTrialLeavesOthersAlone(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	b.turn(turnOf(1))
	b.c.SetTrial(b.now, onAndOff(1, 3))
	side := turnOf(2)
	side.Kind = KindSide
	for name, r := range map[string]*Request{
		"an older conversation": turnOf(1), "a side call": side, "no conversation": {Rank: -1, ChainFirst: -1},
	} {
		if d := b.turn(r); d.Trial != 0 || d.Class == ClassOff {
			t.Errorf("%s takes part: %+v", name, d)
		}
	}
	for n := 10; n < 30; n++ {
		b.turn(turnOf(n))
	}
	b.c.SetTrial(b.now, nil)
	for n := 10; n < 30; n++ {
		if d := b.turn(turnOf(n)); d.Trial != 0 || d.Class == ClassOff {
			t.Errorf("after the end conversation %d is decided as %v of trial %d", n, d.Class, d.Trial)
		}
	}
	b.c.SetTrial(b.now, onAndOff(2, 3))
	if d := b.turn(turnOf(10)); d.Trial != 0 {
		t.Error("a conversation of the first trial is in the second")
	}
}

// TestTrialComparesThresholdAndPolicy gives one arm a threshold of one request.
func TestTrialComparesThresholdAndPolicy(t *testing.T) {
	b := newBox(t, 2, DefaultSettings())
	tr := &Trial{ID: 1, Arms: [2]Settings{DefaultSettings(), DefaultSettings()}}
	tr.Arms[1].SpillThreshold = 1
	b.c.SetTrial(b.now, tr)
	for n := range 20 {
		b.turn(turnOf(n))
		first, d := b.arrive(turnOf(n))
		second, e := b.arrive(turnOf(n))
		want := []int{autoThreshold, 1}[d.Arm]
		if d.Threshold != want || (e.Class == ClassSpilled) != (d.Arm == 1) {
			t.Errorf("arm %d has threshold %d, want %d; its second request is %v", d.Arm, d.Threshold, want, e.Class)
		}
		b.c.Done(b.now, first, served())
		b.c.Done(b.now, second, served())
	}
	if v := b.c.View(b.now); v.SpillThreshold != autoThreshold {
		t.Errorf("the card shows threshold %d of an arm", v.SpillThreshold)
	}
}

// TestTrialProperty mixes conversations, trials and settings: nobody's arm ever changes
// within a trial.
func TestTrialProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, now := New(DefaultSettings(), 1), start
		c.SetReplicas(now, []Replica{{Incarnation: 1, Ready: true}, {Incarnation: 1, Ready: true}})
		type enrolled struct {
			trial uint32
			conv  Key
		}
		arms := map[enrolled]int{}
		id := uint32(0)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0:
				id++
				c.SetTrial(now, onAndOff(id, rapid.Uint64().Draw(t, "seed")))
			case 1:
				c.SetTrial(now, nil)
			case 2:
				s := DefaultSettings()
				s.Affinity = rapid.Bool().Draw(t, "affinity")
				c.SetSettings(now, s)
			default:
				var d Decision
				tk, _ := c.Arrive(now, turnOf(rapid.IntRange(0, 9).Draw(t, "conversation")), &d)
				if d.Trial != 0 {
					k := enrolled{d.Trial, d.Conversation}
					if arm, ok := arms[k]; ok && arm != d.Arm {
						t.Fatalf("conversation %x moved from arm %d to %d", d.Conversation[:2], arm, d.Arm)
					}
					arms[k] = d.Arm
				}
				c.Done(now, tk, served())
			}
			now = now.Add(time.Second)
		}
	})
}
