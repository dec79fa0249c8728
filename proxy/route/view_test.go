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
	b.c.Done(b.now, first, failed())
	b.wait(time.Minute)
	if v := b.c.View(b.now); v.Waiting != 0 {
		t.Errorf("%d waiting, and both fit", v.Waiting)
	}
}
