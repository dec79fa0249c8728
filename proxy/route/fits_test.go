package route

import (
	"testing"
	"time"
)

// TestBudgetIsUsedToTheLastToken lets in what fits exactly, and one token more is held.
func TestBudgetIsUsedToTheLastToken(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	b.arrive(sized(1, 4000))
	b.arrive(sized(2, 6000))
	b.hold(sized(3, 1))
	if r := b.c.View(b.now).Replicas[0]; r.AdmittedTokens != 10_000 {
		t.Errorf("places of %d tokens, want all 10,000", r.AdmittedTokens)
	}
}

// TestSharedPromptIsCountedOnce has two conversations fit because they share a prompt.
func TestSharedPromptIsCountedOnce(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	b.arrive(sharing(1, 4000, 1))
	b.knowShared(1, 3000)
	b.arrive(sharing(2, 9000, 1)) // 6,000 of its own
	if r := b.c.View(b.now).Replicas[0]; r.Admitted != 2 || r.AdmittedTokens != 10_000 {
		t.Errorf("%d places of %d tokens, want two of 10,000", r.Admitted, r.AdmittedTokens)
	}
}

// TestOverdueGoesWhereItIsLeastFull lets one go that has waited as long as any may.
func TestOverdueGoesWhereItIsLeastFull(t *testing.T) {
	b := doorBox(t, 2, 10_000)
	s := workingSet()
	s.MaxHold = 10 * time.Second // before it may take a place
	b.c.SetSettings(b.now, s)
	_, full := b.arrive(sized(1, 9000))
	_, less := b.arrive(sized(2, 7000))
	if full.Replica != 0 || less.Replica != 1 {
		t.Fatalf("on replicas %d and %d", full.Replica, less.Replica)
	}
	waits := b.hold(sized(3, 5000))
	b.wait(10 * time.Second)
	if d, ok := b.released()[waits]; !ok || d.Replica != 1 {
		t.Errorf("released %v to replica %d, want the one with 7,000 of 10,000 tokens", ok, d.Replica)
	}
}
