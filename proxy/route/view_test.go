package route

import (
	"testing"
	"time"
)

// TestWaitingCountsConversationsWithoutRoom: not requests, and not who has a place.
func TestWaitingCountsConversationsWithoutRoom(t *testing.T) {
	b := doorBox(t, 1, 10_000)
	first, _ := b.arrive(sized(1, 9000))
	b.hold(sized(2, 5000))
	b.hold(sized(2, 5000))
	b.hold(sized(3, 4000))
	if v := b.c.View(b.now); v.Held != 3 || v.Waiting != 2 {
		t.Errorf("%d held and %d waiting, want 3 requests of 2 conversations", v.Held, v.Waiting)
	}
	waits := map[Key]bool{}
	b.c.Conversations(b.now, func(cv ConversationView) bool {
		waits[cv.Key] = cv.Waits
		return true
	})
	if waits[keyOf(1)] || !waits[keyOf(2)] || !waits[keyOf(3)] || len(waits) != 3 {
		t.Errorf("%v wait, want the second and the third", waits)
	}
	b.c.Done(b.now, first, failed())
	b.wait(time.Minute)
	if v := b.c.View(b.now); v.Waiting != 0 {
		t.Errorf("%d waiting, and both fit", v.Waiting)
	}
}

// What a view says of the room is what the door gives: so many are let in, and no more.
func TestViewTellsTheRoomOfTheDoor(t *testing.T) {
	b := doorBox(t, 2, 50_000)
	b.c.learned.growth.add(b.c.at, 200)
	const size = 6000
	room := func() (n int64) {
		v := b.c.View(b.now)
		for _, r := range v.Replicas {
			n += r.Free / (size + v.Reserve)
		}
		return n
	}
	b.arrive(sized(0, size))
	if got := room(); got != 13 {
		t.Fatalf("room for %d more in twice 50,000 tokens with 6,300 for each, want 13", got)
	}
	for n := 1; n <= 13; n++ {
		b.arrive(sized(n, size))
		if got := room(); got != int64(13-n) {
			t.Errorf("with %d inside there is room for %d, want %d", n+1, got, 13-n)
		}
	}
	b.hold(sized(99, size))
	v := b.c.View(b.now)
	if v.Waiting != 1 || v.Smallest != size || v.Reserve != 300 {
		t.Errorf("%d wait, the smallest with %d tokens, and each place leaves %d; want 1, 6000 and 300", v.Waiting, v.Smallest, v.Reserve)
	}
	b.wait(20 * time.Second) // longer than filling a cache takes: nobody may pass
	if v := b.c.View(b.now); v.Smallest != 0 {
		t.Errorf("one of %d tokens may pass", v.Smallest)
	}
}
