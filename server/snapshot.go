package server

import (
	"fmt"
	"strings"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/supervisor"
)

// staleFigures is the age from which an engine's figures are not decided on.
const staleFigures = 10 * time.Second

// snapshot returns what the proxy needs to know: every model, also a stopped one, so
// that a client learns why it is not served.
func (r *reconciler) snapshot(entries []*entry, statuses []supervisor.Status) *proxy.Snapshot {
	s := &proxy.Snapshot{DefaultModel: r.defaultModel, Keys: r.keys.current(), TenantLimits: r.limits.tenants()}
	byModel := make(map[string][]supervisor.Status)
	for _, st := range statuses {
		byModel[st.ID.Model] = append(byModel[st.ID.Model], st)
	}
	for _, e := range entries {
		if e.broken == nil {
			s.Models = append(s.Models, r.proxyModel(e, byModel[e.name()]))
		}
	}
	return s
}

func (r *reconciler) proxyModel(e *entry, statuses []supervisor.Status) proxy.Model {
	state, halted := stateText(e.name(), e.runs(), r.problem(e.name()), statuses)
	m := proxy.Model{
		Name:             e.name(),
		Aliases:          e.model.GetSpec().GetAliases(),
		MaxModelLen:      int(e.model.GetSpec().GetMaxModelLen()),
		Created:          e.model.GetCreated().AsTime(),
		Routing:          routeSettings(e.model.GetRouting()),
		Identity:         identityOptions(e.model.GetRouting()),
		Limits:           limitsOf(e.model.GetSpec()),
		StripAttribution: e.model.GetRouting().GetStripAttribution(),
		State:            state,
		Halted:           halted,
		NextStart:        nextStart(statuses),
	}
	count := len(r.places.placed[e.name()].groups)
	ready := false
	for _, st := range statuses {
		count = max(count, st.ID.Index+1)
		ready = ready || serves(st)
		if n := st.Engine.MaxModelLen; n != nil {
			m.MaxModelLen = int(*n)
		}
	}
	m.IgnoresAttribution = ignoreAttribution(statuses)
	m.Replicas = make([]proxy.Replica, count)
	for i := range m.Replicas {
		m.Replicas[i] = proxy.Replica{ID: proxyID(supervisor.ReplicaID{Model: e.name(), Index: i}), Rank: -1}
	}
	for _, st := range statuses {
		replica := &m.Replicas[st.ID.Index]
		replica.URL, replica.APIKey = st.URL, st.APIKey
		replica.Route = r.routeReplica(st, e.model.GetSpec(), ready)
	}
	return m
}

// routeReplica returns what the router is told about a replica. One whose health is
// only slow keeps its conversations: their caches are worth more than its haste. A
// silent one is asked only when no other can be: a slow answer is better than none.
func (r *reconciler) routeReplica(st supervisor.Status, spec *lmwardenv1.ModelSpec, anyReady bool) route.Replica {
	f := &st.Engine
	out := route.Replica{
		Incarnation:        st.Incarnation,
		Ready:              serves(st) || st.State == supervisor.Suspect && !anyReady,
		Avoid:              st.State == supervisor.Suspect,
		Draining:           st.State == supervisor.Stopping || r.drained.has(st),
		MaxNumSeqs:         int(spec.GetMaxNumSeqs()),
		MaxBatchedTokens:   int(spec.GetMaxNumBatchedTokens()),
		MetricsUnavailable: f.At.IsZero() || r.now().Sub(f.At) > staleFigures,
	}
	if f.CapacityTokens != nil {
		out.Capacity = max(*f.CapacityTokens, 0)
	}
	if out.MaxModelLen = int64(spec.GetMaxModelLen()); f.MaxModelLen != nil {
		out.MaxModelLen = max(*f.MaxModelLen, 0)
	}
	if f.MaxNumSeqs != nil {
		out.MaxNumSeqs = int(*f.MaxNumSeqs)
	}
	if f.MaxBatchedTokens != nil {
		out.MaxBatchedTokens = int(*f.MaxBatchedTokens)
	}
	return out
}

// nextStart returns when the first of the replicas that have failed is started again; zero
// when none is to be.
func nextStart(statuses []supervisor.Status) (first time.Time) {
	for _, st := range statuses {
		if st.State == supervisor.Backoff && (first.IsZero() || st.NextStart.Before(first)) {
			first = st.NextStart
		}
	}
	return first
}

// serves says whether a replica answers requests, be it slowly.
func serves(st supervisor.Status) bool {
	return st.State == supervisor.Ready || st.State == supervisor.Suspect && !st.Silent
}

// stateText says for a client why no replica of a model answers and, where only a person
// can change that, what to do.
func stateText(name string, runs bool, problem string, statuses []supervisor.Status) (why string, halted bool) {
	if !runs {
		return fmt.Sprintf("it is stopped; start it on the page or with \"lmwarden model start %s\"", name), true
	}
	if problem != "" {
		return "it has no cards: " + problem, true
	}
	var parts []string
	failed := 0
	for _, st := range statuses {
		part := fmt.Sprintf("replica %d %s", st.ID.Index, st.State)
		if st.State == supervisor.Failed {
			failed++
			if failed > 1 {
				continue // the first one's reason is most often that of all
			}
			part += ": " + strings.TrimRight(st.Message, ".")
		} else if st.Phase != "" {
			part += ": " + st.Phase
		}
		parts = append(parts, part)
	}
	if failed > 0 && failed == len(statuses) {
		return fmt.Sprintf("%s; \"lmwarden model logs %s\" shows its log", parts[0], name), true
	}
	return or(strings.Join(parts, ", "), "starting"), false
}
