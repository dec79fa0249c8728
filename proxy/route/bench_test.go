package route

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	benchReplicas      = 64
	benchConversations = 100_000
)

// benchBox has 64 replicas and 100,000 conversations that have each had a turn.
func benchBox(b *testing.B) *box {
	s := DefaultSettings()
	s.MaxConversations = benchConversations
	bx := newBox(b, benchReplicas, s)
	for i := range bx.reps {
		bx.reps[i].Capacity = 1 << 20
	}
	bx.apply()
	for n := range benchConversations {
		bx.turn(turnOf(n))
	}
	bx.wait(6 * time.Minute) // no longer live, so new ones find room
	return bx
}

// BenchmarkDecision measures decide, reserve and release under a mutex that 16
// goroutines contend for.
func BenchmarkDecision(b *testing.B) {
	for _, arm := range []struct {
		name string
		key  func(n int) Key
	}{
		{"sticky", func(n int) Key { return keyOf(n % benchConversations) }},
		{"placed", func(n int) Key { return keyOf(n + benchConversations) }},
	} {
		b.Run(arm.name, func(b *testing.B) {
			bx := benchBox(b)
			var (
				mu   sync.Mutex
				next atomic.Int64
			)
			b.SetParallelism(max(1, 16/runtime.GOMAXPROCS(0)))
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				var d Decision
				r := *turnOf(0)
				o := served()
				for pb.Next() {
					r.Key = arm.key(int(next.Add(1)))
					mu.Lock()
					bx.now = bx.now.Add(10 * time.Millisecond)
					t, _ := bx.c.Arrive(bx.now, &r, &d)
					mu.Unlock()
					mu.Lock()
					bx.c.FirstByte(bx.now, t)
					bx.c.Done(bx.now, t, o)
					mu.Unlock()
				}
			})
		})
	}
}

// TestDecisionAllocates fails when a turn of a known conversation, or a new one in a
// full table, allocates.
func TestDecisionAllocates(t *testing.T) {
	s := DefaultSettings()
	s.MaxConversations = 1000
	b := newBox(t, 8, s)
	for n := range 2000 {
		b.turn(turnOf(n))
		b.wait(time.Second)
	}
	var d Decision
	r := turnOf(0)
	n := 0
	for name, newKey := range map[string]func() Key{
		"known": func() Key { return keyOf(1999) },
		"new":   func() Key { n++; return keyOf(2000 + n) },
	} {
		got := testing.AllocsPerRun(5000, func() {
			r.Key = newKey()
			b.now = b.now.Add(time.Second)
			tk, _ := b.c.Arrive(b.now, r, &d)
			b.c.FirstByte(b.now, tk)
			b.c.Done(b.now, tk, served())
		})
		if got != 0 {
			t.Errorf("a turn of a %s conversation allocates %v times", name, got)
		}
	}
}

// BenchmarkPump measures one pump with 64 full replicas and 1,000 requests at the door:
// new ones; beside an empty replica that is to be avoided, and with a shared prompt that
// no replica holds; and those that all wait for their homes.
func BenchmarkPump(b *testing.B) {
	full := func(b *testing.B, replicas int) *box {
		s := workingSet()
		s.MaxHold = 1000 * time.Hour
		bx := newBox(b, replicas, s)
		bx.capacity(40_000)
		for n := range 4 * benchReplicas {
			bx.arrive(sized(n, 9000))
		}
		return bx
	}
	b.Run("new", func(b *testing.B) {
		bx := full(b, benchReplicas)
		for n := range 1000 {
			bx.hold(sized(10_000+n, 9000))
		}
		benchPump(b, bx)
	})
	b.Run("suspect", func(b *testing.B) {
		bx := full(b, benchReplicas)
		bx.reps = append(bx.reps, Replica{Incarnation: 1, Ready: true, Avoid: true, Capacity: 40_000, MaxNumSeqs: 32})
		bx.apply()
		for n := range 1000 {
			bx.hold(sized(10_000+n, 9000))
		}
		benchPump(b, bx)
	})
	b.Run("shared", func(b *testing.B) {
		bx := full(b, benchReplicas)
		for n := range 1000 {
			bx.hold(sharing(10_000+n, 9000, 1))
			if n == 0 {
				bx.knowShared(1, 8000) // leaves less of their own than is free everywhere
			}
		}
		benchPump(b, bx)
	})
	b.Run("home", func(b *testing.B) {
		bx := newBox(b, benchReplicas+1, workingSet())
		bx.capacity(40_000)
		bx.reps[benchReplicas].Ready = false
		bx.apply()
		slowClients(bx)
		const waits = 1000
		var open []Ticket
		for n := range waits { // all have had a turn, and are in the caches
			tk, _ := bx.arrive(sized(n, 2200))
			open = append(open, tk)
			if len(open) == benchReplicas {
				for _, tk := range open {
					bx.end(tk, 2200)
				}
				open = open[:0]
			}
		}
		for _, tk := range open {
			bx.end(tk, 2200)
		}
		bx.wait(time.Minute)
		for n := range 4 * benchReplicas {
			bx.arrive(sized(20_000+n, 9000)) // not read yet, so the caches still hold the others
		}
		bx.ready(benchReplicas, true, false)
		for n := range waits {
			var d Decision
			bx.c.Arrive(bx.now, sized(n, 2200), &d)
		}
		benchPump(b, bx)
	})
}

// benchPump measures pumps that let nobody in.
func benchPump(b *testing.B, bx *box) {
	held := bx.c.View(bx.now).Held
	b.ReportAllocs()
	for b.Loop() {
		bx.now = bx.now.Add(time.Nanosecond)
		bx.c.Tick(bx.now)
	}
	b.ReportMetric(float64(bx.c.door.choosy), "wait-for-home")
	if n := bx.c.View(bx.now).Held; n != held || n < 900 {
		b.Fatalf("%d are held, want all of %d, and 1,000", n, held)
	}
}
