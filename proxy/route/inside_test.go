package route

import "slices"

// failer is what checkInside needs of a test.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkInside recounts everything that the core keeps a running sum of.
func checkInside(t failer, c *Core) {
	t.Helper()
	checkTable(t, c)
	lives, works := make([]ledger, len(c.replicas)), make([]ledger, len(c.replicas))
	cache := make([]ledger, len(c.replicas))
	refs := make([]int32, len(c.shadow.shared.slots))
	sp := &c.shadow.shared
	count := func(s int32) {
		if s != none {
			refs[s]++
		}
	}
	for i := range c.table.slots {
		v := &c.table.slots[i]
		if !v.used {
			continue
		}
		count(v.shared)
		if v.live >= live && v.home != none {
			lives[v.home].add(sp, v.liveOwn, v.shared)
		}
		if v.live >= working && v.home != none {
			works[v.home].add(sp, v.liveOwn, v.shared)
		}
		for n := v.nodes; n != none; n = c.shadow.nodes[n].next {
			if c.shadow.nodes[n].conv != int32(i) {
				t.Fatalf("node %d of conversation %d says it is of %d", n, i, c.shadow.nodes[n].conv)
			}
		}
	}
	for i := range c.replicas {
		older := int32(none)
		for n := c.replicas[i].newest; n != none; n = c.shadow.nodes[n].older {
			d := &c.shadow.nodes[n]
			if d.replica != int32(i) || d.newer != older {
				t.Fatalf("node %d is out of place on replica %d", n, i)
			}
			older = n
			cache[i].add(sp, d.own, d.shared)
			count(d.shared)
		}
		if older != c.replicas[i].oldest {
			t.Fatalf("replica %d ends in node %d, not in %d", i, older, c.replicas[i].oldest)
		}
	}
	for i := range c.tickets.slots {
		if tk := &c.tickets.slots[i]; tk.open {
			count(tk.shared)
		}
	}
	for i := range refs {
		if refs[i] != sp.slots[i].refs {
			t.Fatalf("shared prompt %d has %d references, want %d", i, sp.slots[i].refs, refs[i])
		}
	}
	checkDoor(t, c)
	for i := range c.replicas {
		r := &c.replicas[i]
		sameLedger(t, "live", i, &r.live, &lives[i])
		sameLedger(t, "working", i, &r.working, &works[i])
		sameLedger(t, "cache", i, &r.cache, &cache[i])
		if r.Capacity > 0 && r.cache.own > r.Capacity {
			t.Fatalf("replica %d of %d tokens is believed to hold %d", i, r.Capacity, r.cache.own)
		}
	}
}

func sameLedger(t failer, what string, i int, got, want *ledger) {
	t.Helper()
	trim := func(refs []int32) []int32 {
		for len(refs) > 0 && refs[len(refs)-1] == 0 {
			refs = refs[:len(refs)-1]
		}
		return refs
	}
	if got.count != want.count || got.own != want.own || got.shared != want.shared ||
		!slices.Equal(trim(got.refs), trim(want.refs)) {
		t.Fatalf("%s ledger of replica %d is %+v, want %+v", what, i, *got, *want)
	}
}

// checkTable recounts the lists and maps of the table.
func checkTable(t failer, c *Core) {
	t.Helper()
	tb := &c.table
	listed := 0
	for l := range tb.lists {
		n := 0
		for i := tb.lists[l].head; i != none; i = tb.slots[i].next {
			v := &tb.slots[i]
			if int(v.list) != l || !v.used {
				t.Fatalf("conversation %d is in list %d and says %d", i, l, v.list)
			}
			if (v.open > 0) != (l == listBusy) {
				t.Fatalf("conversation %d with %d open is in list %d", i, v.open, l)
			}
			if next := v.next; l != listBusy && next != none && tb.slots[next].lastActive > v.lastActive {
				t.Fatalf("list %d is not in order of the last turn", l)
			}
			n++
		}
		if n != tb.lists[l].count {
			t.Fatalf("list %d counts %d of %d", l, tb.lists[l].count, n)
		}
		listed += n
	}
	if listed != tb.used {
		t.Fatalf("lists hold %d conversations of %d", listed, tb.used)
	}
	if busy := tb.lists[listBusy].count; tb.used > max(tb.bound, busy) && tb.lists[listIdle].count+tb.lists[listIdle+1].count > 0 {
		t.Fatalf("%d conversations with a bound of %d, and some could go", tb.used, tb.bound)
	}
	for k, i := range tb.byKey {
		if !tb.slots[i].used || tb.slots[i].key != k {
			t.Fatalf("key %x names slot %d of %x", k, i, tb.slots[i].key)
		}
	}
	entries := 0
	for h, e := range tb.chains {
		for ; e != none; e = *tb.link(e) {
			v := &tb.slots[e/chainKept]
			if !v.used || !v.byChain || v.chain[e%chainKept] != h {
				t.Fatalf("hash %x leads to a conversation that does not hold it", h)
			}
			entries++
		}
	}
	if entries > chainKept*tb.used {
		t.Fatalf("%d chain entries of %d conversations", entries, tb.used)
	}
}

// checkDoor recounts places, gates and queue.
func checkDoor(t failer, c *Core) {
	t.Helper()
	through := make([]int32, len(c.table.slots))
	queued, gated, stranded := 0, 0, 0
	cold := make([]int, len(c.replicas))
	choosy, awaited := 0, make([]int, len(c.replicas))
	for i := range c.tickets.slots {
		tk := &c.tickets.slots[i]
		if !tk.open {
			continue
		}
		if tk.conv != none && tk.through {
			through[tk.conv]++
		}
		if tk.cold {
			cold[tk.replica]++
		}
		states := 0
		for _, in := range []bool{tk.queued, tk.gated, tk.stranded, tk.reserved} {
			if in {
				states++
			}
		}
		if states != 1 {
			t.Fatalf("ticket %d waits for room (%t), is at a gate (%t), waits for a replica (%t) or is forwarded (%t): want one of these",
				i, tk.queued, tk.gated, tk.stranded, tk.reserved)
		}
		if tk.queued {
			queued++
		}
		if tk.awaits != none {
			choosy++
			awaited[tk.awaits]++
		}
		if tk.awaits != none && !tk.queued {
			t.Fatalf("ticket %d is past the queue and awaits replica %d", i, tk.awaits)
		}
		if tk.gated {
			gated++
		}
		if tk.stranded {
			stranded++
		}
	}
	if stranded != len(c.door.stranded) {
		t.Fatalf("%d wait for a replica, want %d", len(c.door.stranded), stranded)
	}
	if queued != len(c.door.queue) || queued != c.door.waiting || gated != c.door.gated {
		t.Fatalf("queue of %d says %d, want %d; gates say %d, want %d", len(c.door.queue), c.door.waiting, queued, c.door.gated, gated)
	}
	if choosy != c.door.choosy {
		t.Fatalf("%d wait for their homes by choice, want %d", c.door.choosy, choosy)
	}
	places := make([]ledger, len(c.replicas))
	for i := range c.table.slots {
		v := &c.table.slots[i]
		if v.used && v.through != through[i] {
			t.Fatalf("conversation %d has %d requests past the door, want %d", i, v.through, through[i])
		}
		if !v.used || !v.admitted {
			continue
		}
		if !c.homeAlive(v) {
			t.Fatalf("conversation %d has a place on a home that cannot serve it", i)
		}
		places[v.home].add(&c.shadow.shared, v.size, v.shared)
	}
	for i := range c.replicas {
		r := &c.replicas[i]
		sameLedger(t, "places", i, &r.places, &places[i])
		if r.awaited != awaited[i] {
			t.Fatalf("replica %d is awaited by %d, want %d", i, r.awaited, awaited[i])
		}
		if r.cold != cold[i] {
			t.Fatalf("replica %d counts %d cold prefills, want %d", i, r.cold, cold[i])
		}
		n := 0
		for _, s := range []seats{r.idle, r.busy} {
			last := int64(-1)
			for k := s.first; k != none; k = c.table.at(k).seatNext {
				v := c.table.at(k)
				if idle := s == r.idle; v.home != int32(i) || idle != (v.through == 0) {
					t.Fatalf("conversation %d with %d past the door is in the wrong list of replica %d", k, v.through, i)
				} else if idle && v.lastActive < last {
					t.Fatalf("the idle places of replica %d are not in order", i)
				} else if idle {
					last = v.lastActive
				}
				n++
			}
		}
		if n != r.places.count {
			t.Fatalf("replica %d lists %d places of %d", i, n, r.places.count)
		}
	}
}
