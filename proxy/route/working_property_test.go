package route

import "pgregory.net/rapid"

// checkWorking recounts the working sets from the list of conversations: nobody who is
// forgotten, without a home or waits at the door without a place is in one.
func checkWorking(t *rapid.T, c *Core, v *View, list []ConversationView) {
	count := make([]int, len(v.Replicas))
	own := make([]int64, len(v.Replicas))
	for _, cv := range list {
		if !cv.Active {
			continue
		}
		if cv.Home < 0 || cv.Home >= len(v.Replicas) {
			t.Fatalf("conversation %x is at work at home %d", cv.Key[:2], cv.Home)
		}
		count[cv.Home]++
		own[cv.Home] += cv.Working
	}
	sum := 0
	for i, r := range v.Replicas {
		sum += r.Active
		if r.Active != count[i] || r.ActiveTokens < own[i] {
			t.Fatalf("replica %d has %d at work with %d tokens, the list %d with %d of their own", i, r.Active, r.ActiveTokens, count[i], own[i])
		}
		if c.door.open && r.Active < c.replicas[i].busyPlaces(c) {
			t.Fatalf("replica %d has %d at work, but more turns of places there are past the door", i, r.Active)
		}
	}
	if v.Active != sum {
		t.Fatalf("%d are at work, %d by replica", v.Active, sum)
	}
}

// busyPlaces counts the conversations with a place and a request past the door.
func (r *replica) busyPlaces(c *Core) (n int) {
	for k := r.busy.first; k != none; k = c.table.at(k).seatNext {
		if !c.table.at(k).forgotten {
			n++
		}
	}
	return n
}

// Trial begins a trial of affinity, or ends it.
func (m *machine) Trial(t *rapid.T) {
	if !rapid.Bool().Draw(t, "begins") {
		m.c.SetTrial(m.now, nil)
		return
	}
	m.trials++
	m.c.SetTrial(m.now, onAndOff(m.trials, rapid.Uint64().Draw(t, "seed")))
}
