package route

import "fmt"

// note says what tipped a choice, where the class alone does not.
type note uint8

const (
	noteNone      note = iota
	noteTableFull      // the table is full of live conversations
	noteTwin           // the same prompt is in flight there
	noteSiblings       // it holds the shared prefix
	noteParent         // it is the parent's home
	noteNoneFreer      // home is crowded, but no other has fewer in flight
	noteOwnCrowd       // the conversation's own requests crowd its home
	notePriced         // the prices decided
	noteBound          // it alone can answer
	noteDoor           // admission gave its conversation a place there
)

// String returns the name of the class as the API and the headers spell it.
func (c Class) String() string {
	if int(c) >= len(classNames) {
		return fmt.Sprintf("class(%d)", uint8(c))
	}
	return classNames[c]
}

var classNames = [NumClasses]string{
	ClassNone: "none", ClassPlaced: "placed", ClassSticky: "sticky", ClassSpilled: "spilled",
	ClassRehomed: "rehomed", ClassClientPinned: "client_pinned", ClassUnkeyed: "unkeyed",
	ClassSide: "side", ClassOff: "off",
}

// String returns the cause as the API spells it.
func (m Miss) String() string {
	if int(m) >= len(missNames) {
		return fmt.Sprintf("miss(%d)", uint8(m))
	}
	return missNames[m]
}

var missNames = [...]string{
	MissNone: "none", MissNew: "new", MissEvicted: "evicted", MissSpilled: "spilled",
	MissRehomed: "rehomed", MissPrefixChanged: "prefix_changed",
	MissReplicaRestarted: "replica_restarted",
}

// ByAdmission tells whether admission chose the replica: the scores of the terms are then
// the seconds that it costs, to the request and to others, and their fill is what places take of the capacity.
func (d *Decision) ByAdmission() bool { return d.note == noteDoor }

// Reason says in one sentence for a person why the request went where it went.
func (d *Decision) Reason() string {
	if d.note == noteBound {
		return fmt.Sprintf("%s: replica %d alone holds the answer that this request continues", d.Class, d.Replica)
	}
	switch d.Class {
	case ClassSticky:
		return d.stickyReason()
	case ClassPlaced:
		return d.placedReason()
	case ClassSpilled:
		return d.spilledReason()
	case ClassRehomed:
		return d.rehomedReason()
	case ClassClientPinned:
		return fmt.Sprintf("client_pinned: the client named replica %d", d.Replica)
	case ClassUnkeyed:
		return fmt.Sprintf("unkeyed: no conversation could be told; replica %d carries the least", d.Replica)
	case ClassSide:
		if d.Home == d.Replica {
			return fmt.Sprintf("side: a side call follows its group to replica %d", d.Replica)
		}
		return fmt.Sprintf("side: a side call makes no pin; replica %d carries the least", d.Replica)
	case ClassOff:
		return fmt.Sprintf("off: affinity is off; replica %d has the fewest requests in flight", d.Replica)
	default:
		return "not decided"
	}
}

func (d *Decision) rehomedReason() string {
	switch {
	case d.outgrown && d.note == noteDoor:
		return fmt.Sprintf("rehomed: its prompt is too long for its home, replica %d; it has a place on replica %d; waited %.1f s", d.Home, d.Replica, d.Wait.Seconds())
	case d.outgrown:
		return fmt.Sprintf("rehomed: its prompt is too long for its home, replica %d; replica %d is the new home", d.Home, d.Replica)
	case d.note == noteDoor:
		return fmt.Sprintf("rehomed: it has a place on replica %d, where there was room first; its home was replica %d; waited %.1f s", d.Replica, d.Home, d.Wait.Seconds())
	case d.MissExpected == MissReplicaRestarted:
		return fmt.Sprintf("rehomed: its home, replica %d, has restarted with an empty cache; replica %d is the new home", d.Home, d.Replica)
	default:
		return fmt.Sprintf("rehomed: its home, replica %d, takes no requests; replica %d is the new home", d.Home, d.Replica)
	}
}

func (d *Decision) stickyReason() string {
	switch d.note {
	case noteDoor:
		return fmt.Sprintf("sticky: it has a place on its home, replica %d; waited %.1f s", d.Home, d.Wait.Seconds())
	case noteNoneFreer:
		return fmt.Sprintf("sticky: its home, replica %d, has %d in flight and no other replica has fewer", d.Home, d.HomeInFlight)
	case notePriced:
		return fmt.Sprintf("sticky: waiting for its home, replica %d, costs %.1f s, no more than a new prefill elsewhere", d.Home, d.price(d.Home))
	default:
		return fmt.Sprintf("sticky: its home, replica %d, has %d in flight, below %d", d.Home, d.HomeInFlight, d.Threshold)
	}
}

func (d *Decision) spilledReason() string {
	switch d.note {
	case noteOwnCrowd:
		return fmt.Sprintf("spilled: %d or more requests of this conversation are in flight on its home, replica %d; replica %d has the fewest, the home is kept", convInFlight, d.Home, d.Replica)
	case notePriced:
		return fmt.Sprintf("spilled: waiting for its home, replica %d, costs %.1f s, reading the context again on replica %d %.1f s; the home is kept", d.Home, d.price(d.Home), d.Replica, d.price(d.Replica))
	default:
		return fmt.Sprintf("spilled: its home, replica %d, has %d in flight, the threshold is %d; replica %d has the fewest, the home is kept", d.Home, d.HomeInFlight, d.Threshold, d.Replica)
	}
}

func (d *Decision) placedReason() string {
	switch d.note {
	case noteDoor:
		return fmt.Sprintf("placed: replica %d had room for a new conversation; waited %.1f s", d.Replica, d.Wait.Seconds())
	case noteTableFull:
		return fmt.Sprintf("placed: replica %d carries the least; the table is full of live conversations, so the home is not kept", d.Replica)
	case noteTwin:
		return fmt.Sprintf("placed: the same prompt is in flight on replica %d", d.Replica)
	case noteSiblings:
		return fmt.Sprintf("placed: replica %d holds the prefix that this subagent shares", d.Replica)
	case noteParent:
		return fmt.Sprintf("placed: replica %d is the home of the conversation that spawned this one", d.Replica)
	default:
		return fmt.Sprintf("placed: a new conversation; the policy chose replica %d", d.Replica)
	}
}

// price returns the price of a replica in the terms, or 0 when they are gone.
func (d *Decision) price(replica int) float64 {
	for i := range d.Terms {
		if int(d.Terms[i].Replica) == replica {
			return d.Terms[i].Price
		}
	}
	return 0
}
