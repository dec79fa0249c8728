package route

import "testing"

func TestReason(t *testing.T) {
	prices := []Term{{Replica: 1, Price: 12.34}, {Replica: 2, Price: 3}}
	tests := []struct {
		d    Decision
		want string
	}{
		{Decision{}, "not decided"},
		{Decision{Class: ClassSticky, Replica: 2, Home: 2, HomeInFlight: 3, Threshold: 8}, "sticky: its home, replica 2, has 3 in flight, below 8"},
		{Decision{Class: ClassSticky, Replica: 2, Home: 2, HomeInFlight: 9, note: noteNoneFreer}, "sticky: its home, replica 2, has 9 in flight and no other replica has fewer"},
		{Decision{Class: ClassSticky, Replica: 2, Home: 2, Terms: prices, note: notePriced}, "sticky: waiting for its home, replica 2, costs 3.0 s, no more than a new prefill elsewhere"},
		{Decision{Class: ClassSticky, Replica: 2, Home: 2, Wait: 2.5e9, note: noteDoor}, "sticky: it has a place on its home, replica 2; waited 2.5 s"},
		{Decision{Class: ClassSpilled, Replica: 2, Home: 1, HomeInFlight: 8, Threshold: 8}, "spilled: its home, replica 1, has 8 in flight, the threshold is 8; replica 2 has the fewest, the home is kept"},
		{Decision{Class: ClassSpilled, Replica: 2, Home: 1, note: noteOwnCrowd}, "spilled: 8 or more requests of this conversation are in flight on its home, replica 1; replica 2 has the fewest, the home is kept"},
		{Decision{Class: ClassSpilled, Replica: 2, Home: 1, Terms: prices, note: notePriced}, "spilled: waiting for its home, replica 1, costs 12.3 s, reading the context again on replica 2 3.0 s; the home is kept"},
		{Decision{Class: ClassPlaced, Replica: 1}, "placed: a new conversation; the policy chose replica 1"},
		{Decision{Class: ClassPlaced, Replica: 1, note: noteTwin}, "placed: the same prompt is in flight on replica 1"},
		{Decision{Class: ClassPlaced, Replica: 1, note: noteSiblings}, "placed: replica 1 holds the prefix that this subagent shares"},
		{Decision{Class: ClassPlaced, Replica: 1, note: noteParent}, "placed: replica 1 is the home of the conversation that spawned this one"},
		{Decision{Class: ClassPlaced, Replica: 1, note: noteTableFull}, "placed: replica 1 carries the least; the table is full of live conversations, so the home is not kept"},
		{Decision{Class: ClassRehomed, Replica: 1, Home: 0}, "rehomed: its home, replica 0, takes no requests; replica 1 is the new home"},
		{Decision{Class: ClassRehomed, Replica: 1, Home: 0, MissExpected: MissReplicaRestarted}, "rehomed: its home, replica 0, has restarted with an empty cache; replica 1 is the new home"},
		{Decision{Class: ClassRehomed, Replica: 1, Home: 0, Wait: 1e9, note: noteDoor}, "rehomed: it has a place on replica 1, where there was room first; its home was replica 0; waited 1.0 s"},
		{Decision{Class: ClassRehomed, Replica: 1, Home: 0, outgrown: true}, "rehomed: its prompt is too long for its home, replica 0; replica 1 is the new home"},
		{Decision{Class: ClassRehomed, Replica: 1, Home: 0, Wait: 1e9, note: noteDoor, outgrown: true}, "rehomed: its prompt is too long for its home, replica 0; it has a place on replica 1; waited 1.0 s"},
		{Decision{Class: ClassClientPinned, Replica: 3}, "client_pinned: the client named replica 3"},
		{Decision{Class: ClassUnkeyed, Replica: 3, Home: -1}, "unkeyed: no conversation could be told; replica 3 carries the least"},
		{Decision{Class: ClassSide, Replica: 3, Home: 3}, "side: a side call follows its group to replica 3"},
		{Decision{Class: ClassSide, Replica: 3, Home: -1}, "side: a side call makes no pin; replica 3 carries the least"},
		{Decision{Class: ClassOff, Replica: 3}, "off: affinity is off; replica 3 has the fewest requests in flight"},
	}
	for _, tt := range tests {
		if got := tt.d.Reason(); got != tt.want {
			t.Errorf("%+v:\n got %s\nwant %s", tt.d, got, tt.want)
		}
	}
}

func TestNames(t *testing.T) {
	for c := ClassNone; c < NumClasses; c++ {
		if c.String() == "" {
			t.Errorf("class %d has no name", uint8(c))
		}
	}
	for m := MissNone; m <= MissReplicaRestarted; m++ {
		if m.String() == "" {
			t.Errorf("miss %d has no name", uint8(m))
		}
	}
	if NumClasses.String() != "class(9)" || Miss(99).String() != "miss(99)" {
		t.Errorf("values out of range print as %v and %v", NumClasses, Miss(99))
	}
}
