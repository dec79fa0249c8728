package route

import (
	"fmt"
	"testing"
	"time"
)

// No policy allocates, for known and for new conversations, nor does affinity off.
func TestPoliciesAllocateNothing(t *testing.T) {
	for _, affinity := range []bool{true, false} {
		for _, p := range []Policy{PolicyLeastLoaded, PolicyHash, PolicyRoundRobin, PolicyRandom} {
			t.Run(fmt.Sprintf("affinity %t, policy %d", affinity, p), func(t *testing.T) {
				s := DefaultSettings()
				s.MaxConversations, s.Affinity, s.Policy = 100, affinity, p
				b := newBox(t, 8, s)
				for n := range 200 {
					b.turn(turnOf(n))
					b.wait(time.Second)
				}
				var d Decision
				r, n := turnOf(0), 0
				got := testing.AllocsPerRun(1000, func() {
					n++
					r.Key = keyOf(200 + n/2) // a new one, and once more
					b.now = b.now.Add(time.Second)
					tk, _ := b.c.Arrive(b.now, r, &d)
					b.c.FirstByte(b.now, tk)
					b.c.Done(b.now, tk, served())
				})
				if got != 0 {
					t.Errorf("a turn allocates %v times", got)
				}
			})
		}
	}
}
