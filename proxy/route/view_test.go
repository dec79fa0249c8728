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
