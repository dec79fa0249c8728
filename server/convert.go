package server

import (
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/supervisor"
	"github.com/lmwarden/lmwarden/supervisor/gpu"
)

// idBytes is how much of a key is shown: enough to tell conversations apart, too
// little to find the client's own id.
const idBytes = 8

// keyID returns the id of a conversation or group as shown; empty for none.
func keyID(k route.Key) string {
	if k == (route.Key{}) {
		return ""
	}
	return hex.EncodeToString(k[:idBytes])
}

// proxyID translates the supervisor's name of a replica into the proxy's.
func proxyID(id supervisor.ReplicaID) proxy.ReplicaID {
	return proxy.ReplicaID(fmt.Sprintf("%s/%d", id.Model, id.Index))
}

// stamp returns nil for the zero time, so that absent stays absent.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// optional returns a pointer to the converted value, or nil when it is not reported.
func optional[To, From int64 | uint64 | uint32 | int32 | int | float64](v *From) *To {
	if v == nil || *v < 0 || *v != *v { // NaN is not a figure either
		return nil
	}
	n := To(*v)
	return &n
}

// known returns a pointer to the converted number, or nil when it is negative, the
// mark of a number that was not reported.
func known[To uint32 | uint64 | float64, From int | int32 | int64 | float64](v From) *To {
	if v < 0 {
		return nil
	}
	n := To(v)
	return &n
}

// count turns a number that cannot be negative into the API's type.
func count[N int | int64](n N) uint32 { return uint32(max(n, 0)) }

func decisionClass(c route.Class) lmwardenv1.DecisionClass {
	switch c {
	case route.ClassPlaced:
		return lmwardenv1.DecisionClass_DECISION_CLASS_PLACED
	case route.ClassSticky:
		return lmwardenv1.DecisionClass_DECISION_CLASS_STICKY
	case route.ClassSpilled:
		return lmwardenv1.DecisionClass_DECISION_CLASS_SPILLED
	case route.ClassRehomed:
		return lmwardenv1.DecisionClass_DECISION_CLASS_REHOMED
	case route.ClassClientPinned:
		return lmwardenv1.DecisionClass_DECISION_CLASS_CLIENT_PINNED
	case route.ClassUnkeyed:
		return lmwardenv1.DecisionClass_DECISION_CLASS_UNKEYED
	case route.ClassSide:
		return lmwardenv1.DecisionClass_DECISION_CLASS_SIDE
	case route.ClassOff:
		return lmwardenv1.DecisionClass_DECISION_CLASS_OFF
	}
	return lmwardenv1.DecisionClass_DECISION_CLASS_UNSPECIFIED
}

func missCause(m route.Miss) lmwardenv1.MissCause {
	switch m {
	case route.MissNew:
		return lmwardenv1.MissCause_MISS_CAUSE_NEW
	case route.MissEvicted:
		return lmwardenv1.MissCause_MISS_CAUSE_EVICTED
	case route.MissSpilled:
		return lmwardenv1.MissCause_MISS_CAUSE_SPILLED
	case route.MissRehomed:
		return lmwardenv1.MissCause_MISS_CAUSE_REHOMED
	case route.MissPrefixChanged:
		return lmwardenv1.MissCause_MISS_CAUSE_PREFIX_CHANGED
	case route.MissReplicaRestarted:
		return lmwardenv1.MissCause_MISS_CAUSE_REPLICA_RESTARTED
	}
	return lmwardenv1.MissCause_MISS_CAUSE_UNSPECIFIED
}

func decisionCounts(c [route.NumClasses]uint64) *lmwardenv1.DecisionCounts {
	return &lmwardenv1.DecisionCounts{
		Placed:       c[route.ClassPlaced],
		Sticky:       c[route.ClassSticky],
		Spilled:      c[route.ClassSpilled],
		Rehomed:      c[route.ClassRehomed],
		ClientPinned: c[route.ClassClientPinned],
		Unkeyed:      c[route.ClassUnkeyed],
		Side:         c[route.ClassSide],
		Off:          c[route.ClassOff],
	}
}

func replicaState(s supervisor.State) lmwardenv1.ReplicaState {
	switch s {
	case supervisor.Stopped:
		return lmwardenv1.ReplicaState_REPLICA_STATE_STOPPED
	case supervisor.Starting:
		return lmwardenv1.ReplicaState_REPLICA_STATE_STARTING
	case supervisor.Ready:
		return lmwardenv1.ReplicaState_REPLICA_STATE_READY
	case supervisor.Suspect:
		return lmwardenv1.ReplicaState_REPLICA_STATE_SUSPECT
	case supervisor.Stopping:
		return lmwardenv1.ReplicaState_REPLICA_STATE_STOPPING
	case supervisor.Backoff:
		return lmwardenv1.ReplicaState_REPLICA_STATE_BACKOFF
	case supervisor.Failed:
		return lmwardenv1.ReplicaState_REPLICA_STATE_FAILED
	}
	return lmwardenv1.ReplicaState_REPLICA_STATE_UNSPECIFIED
}

// replica returns one replica as shown.
func (c *control) replica(st supervisor.Status) *lmwardenv1.Replica {
	r := &lmwardenv1.Replica{
		Model:          st.ID.Model,
		Index:          count(st.ID.Index),
		State:          replicaState(st.State),
		Message:        st.Message,
		Since:          stamp(st.Since),
		Phase:          st.Phase,
		Pid:            int32(st.PID),
		Port:           count(st.Port),
		Url:            st.URL,
		Incarnation:    st.Incarnation,
		Restarts:       count(st.Restarts),
		NextStart:      stamp(st.NextStart),
		Gpus:           st.GPUs,
		CapacityTokens: optional[uint64](st.Engine.CapacityTokens),
		EngineVersion:  st.Engine.Version,
		LastLogLine:    st.LastLine,
		Command:        st.Command,
	}
	if st.LastExit >= 0 {
		exit := int32(st.LastExit)
		r.LastExit = &exit
	}
	if st.State == supervisor.Ready && c.drained.has(st) {
		r.State = lmwardenv1.ReplicaState_REPLICA_STATE_DRAINING
		r.Message = "taken out of rotation; resume it to let it take requests again"
	}
	return r
}

func event(e stats.Event) *lmwardenv1.Event {
	out := &lmwardenv1.Event{
		Id:      e.ID,
		Time:    stamp(e.Time),
		Kind:    e.Kind,
		Model:   e.Model,
		Replica: known[uint32](e.Replica),
		Message: e.Message,
	}
	switch e.Severity {
	case stats.Note:
		out.Severity = lmwardenv1.Severity_SEVERITY_NOTE
	case stats.Warning:
		out.Severity = lmwardenv1.Severity_SEVERITY_WARNING
	case stats.Error:
		out.Severity = lmwardenv1.Severity_SEVERITY_ERROR
	}
	return out
}

// eventsOf converts a page of events.
func eventsOf(page []stats.Event) []*lmwardenv1.Event {
	var out []*lmwardenv1.Event
	for _, e := range page {
		out = append(out, event(e))
	}
	return out
}

// card returns one card as shown; holder is the replica that it is assigned to.
func card(d gpu.Device, holder *supervisor.ReplicaID, now time.Time) *lmwardenv1.Gpu {
	out := &lmwardenv1.Gpu{
		Uuid:               d.UUID,
		Index:              count(d.Index),
		Name:               d.Name,
		PciBusId:           d.PCIBusID,
		MemoryTotalBytes:   d.MemoryTotal,
		MemoryUsedBytes:    d.MemoryUsed,
		Utilization:        d.Utilization,
		TemperatureCelsius: d.Temperature,
		PowerWatts:         d.PowerWatts,
		PowerLimitWatts:    d.PowerLimitWatts,
		Message:            d.Message,
		Simulated:          d.Simulated,
		ComputeCapability:  d.ComputeCapability,
	}
	if !d.At.IsZero() {
		out.Age = durationpb.New(max(0, now.Sub(d.At)))
	}
	if holder != nil {
		out.Model = holder.Model
		index := count(holder.Index)
		out.Replica = &index
	}
	return out
}
