package run

import (
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// anyReplica is ready.
func anyReplica(int) bool { return true }

// pickClient is a client with a conversation of that name and a prompt of those blocks.
func pickClient(id uint64, blocks ...engine.Hash) *client {
	return &client{talk: &load.Talk{ID: id}, request: engine.Request{Prompt: 16 * len(blocks), Output: 16, Hashes: blocks}}
}

// play sends a turn where the picker says and ends it, and returns where that was.
func play(p picker, now time.Duration, c *client) int {
	to := p.pick(now, c, anyReplica)
	p.sent(now, c, to)
	p.ended(now, c, to)
	return to
}

// TestRecentWeighsWhoEnded holds seed-recent to its five minutes: a conversation weighs on
// its home that long after its last turn, and no longer.
func TestRecentWeighsWhoEnded(t *testing.T) {
	p := newRecent(pickerBox{replicas: 2, capacity: 1 << 30, blockSize: 16, spill: 8})
	first := pickClient(1, 1)
	if to := play(p, 0, first); to != 0 {
		t.Fatalf("the first conversation went to replica %d", to)
	}
	if to := play(p, time.Second, first); to != 0 {
		t.Errorf("it went to replica %d on its second turn", to)
	}
	if to := play(p, recentWindow, pickClient(2, 2)); to != 1 {
		t.Errorf("while the first one weighs the second went to replica %d", to)
	}
	// The first weighs no more: replica 0 is the lighter one but for what it holds, which
	// is next to nothing.
	if to := play(p, recentWindow+2*time.Second, pickClient(3, 3)); to != 0 {
		t.Errorf("when the first one weighs no more the third went to replica %d", to)
	}
}

// TestRecentSpills leaves a home at the threshold and comes back.
func TestRecentSpills(t *testing.T) {
	p := newRecent(pickerBox{replicas: 2, capacity: 1 << 30, blockSize: 16, spill: 2})
	c := pickClient(1, 1)
	home := play(p, 0, c)
	for range 2 {
		p.sent(0, pickClient(9, 9), home)
	}
	if to := p.pick(0, c, anyReplica); to == home {
		t.Error("at the threshold it stayed")
	}
	p.ended(0, pickClient(9, 9), home)
	if to := p.pick(0, c, anyReplica); to != home {
		t.Error("below the threshold it did not come back")
	}
	if to := p.pick(0, c, func(i int) bool { return i != home }); to == home || to < 0 {
		t.Errorf("without its home it went to replica %d", to)
	}
	if to := p.pick(0, c, func(int) bool { return false }); to != -1 {
		t.Errorf("with no replica it went to %d", to)
	}
}

// TestTree sends a prompt where most of it is known, and one that is new where the least
// was sent.
func TestTree(t *testing.T) {
	p := newTree(pickerBox{replicas: 2, blockSize: 16})
	long := pickClient(1, 1, 2, 3, 4)
	if to := play(p, 0, long); to != 0 {
		t.Fatalf("the first went to replica %d", to)
	}
	for _, c := range []struct {
		about  string
		blocks []engine.Hash
		want   int
	}{
		{"it grows", []engine.Hash{1, 2, 3, 4, 5, 6}, 0},
		{"half of it is known, and more must be", []engine.Hash{1, 2, 13, 14}, 1},
		{"that one grows", []engine.Hash{1, 2, 13, 14, 15}, 1},
		{"nothing is known: the smaller tree", []engine.Hash{21}, 1},
	} {
		if to := play(p, 0, pickClient(2, c.blocks...)); to != c.want {
			t.Errorf("%s: replica %d, want %d", c.about, to, c.want)
		}
	}
	if to := p.pick(0, long, func(i int) bool { return i == 1 }); to != 1 {
		t.Errorf("without replica 0 it went to %d", to)
	}
}

// TestPickersOutliveReplicas plays a death and a return under both.
func TestPickersOutliveReplicas(t *testing.T) {
	for _, name := range []string{"seed-recent", "cache-tree"} {
		cfg := short(t, name)
		cfg.Deaths = []Death{{Replica: 1, At: 30 * time.Second, Back: 60 * time.Second}}
		if r := mustRun(t, cfg); r.Broken == 0 || r.Requests == 0 || r.LaterTurns.Count == 0 {
			t.Errorf("%s: %d broken of %d turns", name, r.Broken, r.Requests)
		}
	}
}
