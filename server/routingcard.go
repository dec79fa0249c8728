package server

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/supervisor"
)

// Bounds of the lists on a routing card.
const (
	cardConversations = 64
	cardQueue         = 16
	cardLatest        = 16
)

// routingCard puts the card of a model together: the router's own counts, and beside
// them the engines' figures.
func (c *control) routingCard(e *entry) *lmwardenv1.RoutingCard {
	view, _ := c.plane.View(e.name()) // an unknown model has the zero view: nothing was routed yet
	full := fullnessOf(view)
	settings := routeSettings(e.model.GetRouting())
	card := &lmwardenv1.RoutingCard{
		Model:              e.name(),
		Settings:           e.model.GetRouting(),
		Revision:           e.model.GetRevision(),
		Affinity:           settings.Affinity,
		SpillThreshold:     count(view.SpillThreshold),
		SpillThresholdAuto: settings.SpillThreshold == 0,
		StickyPercent:      stickyPercent(view.Counts),
		InFlight:           count(view.InFlight),
		Held:               count(view.Held),
		CountersSince:      c.info.GetStarted(),
		Counts:             decisionCounts(view.Counts),
		SharedTokens:       known[uint64](view.SharedTokens),
		Fit:                full.fit,
		RoomFor:            known[uint32](full.roomFor),
		Admission:          admissionInForce(e.model.GetRouting()),
		AdmissionMessage:   admissionMessage(settings, view),
		LiveConversations:  count(view.Live),

		ActiveConversations: count(view.Active),
	}
	if card.Settings == nil {
		card.Settings = &lmwardenv1.RoutingSettings{}
	}
	now := c.now()
	if view.Held > 0 {
		card.OldestHeld = durationpb.New(max(0, now.Sub(view.OldestHeld)))
	}
	card.Queue = heldRequests(view.Queue)
	card.Door = c.loop.doors.pressure(e.name())
	card.PrefixBreaks = c.prefixBreaks(e.name(), now)
	card.Learned = learned(&view.Learned, settings.Admission == route.AdmissionWorkingSet, now)
	homes, left := c.activeByHome(e.name())
	for _, st := range c.statuses(e.name()) {
		row := c.routingReplica(st, now)
		if i := st.ID.Index; i < len(view.Replicas) {
			addView(row, view.Replicas[i])
			card.AdmittedConversations += row.GetAdmittedConversations()
			row.Conversations = homes[i]
			row.ConversationsLeftOut = left[i]
		}
		card.Replicas = append(card.Replicas, row)
	}
	latest, _ := c.stats.Requests(stats.Filter{Model: e.name()}, 0, cardLatest)
	for i := range latest {
		card.Latest = append(card.Latest, requestRecord(&latest[i]))
	}
	return card
}

// stickyPercent returns sticky over all turns that had a home, or nil before the
// first.
func stickyPercent(c [route.NumClasses]uint64) *float64 {
	all := c[route.ClassSticky] + c[route.ClassSpilled] + c[route.ClassRehomed]
	if all == 0 {
		return nil
	}
	percent := 100 * float64(c[route.ClassSticky]) / float64(all)
	return &percent
}

func heldRequests(queue []route.HeldView) []*lmwardenv1.HeldRequest {
	var out []*lmwardenv1.HeldRequest
	for i, h := range queue[:min(len(queue), cardQueue)] {
		out = append(out, &lmwardenv1.HeldRequest{
			Conversation: keyID(h.Conversation),
			Tokens:       uint64(max(h.Tokens, 0)),
			Arrived:      stamp(h.Arrived),
			Position:     count(i + 1),
			Reason:       h.Reason,
		})
	}
	return out
}

// routingReplica returns the part of a row that the engine states.
func (c *control) routingReplica(st supervisor.Status, now time.Time) *lmwardenv1.RoutingReplica {
	f := &st.Engine
	row := &lmwardenv1.RoutingReplica{
		Index:          count(st.ID.Index),
		State:          c.replica(st).GetState(),
		Counts:         &lmwardenv1.DecisionCounts{},
		Running:        optional[uint32](f.Running),
		Waiting:        optional[uint32](f.Waiting),
		KvUsed:         optional[float64](f.KVUsed),
		CapacityTokens: optional[uint64](f.CapacityTokens),
	}
	if !f.At.IsZero() {
		row.MetricsAge = durationpb.New(max(0, now.Sub(f.At)))
	}
	if f.PrefixQueries != nil && f.PrefixHits != nil && *f.PrefixQueries > 0 {
		rate := *f.PrefixHits / *f.PrefixQueries
		row.PrefixHitRate = optional[float64](&rate)
	}
	return row
}

// addView adds the part of a row that the router counts.
func addView(row *lmwardenv1.RoutingReplica, v route.ReplicaView) {
	row.InFlight = count(v.InFlight)
	row.Counts = decisionCounts(v.Counts)
	row.ResidentTokens = uint64(max(v.Resident, 0))
	row.LiveConversations = count(v.Live)
	row.LiveTokens = uint64(max(v.LiveTokens, 0))
	row.ActiveConversations = count(v.Active)
	row.ActiveTokens = uint64(max(v.ActiveTokens, 0))
	row.AdmittedConversations = count(v.Admitted)
	row.AdmittedTokens = uint64(max(v.AdmittedTokens, 0))
	row.Fit, _ = fitOf(v.ActiveTokens, v.Capacity)
	row.Held = count(v.Held)
	if row.CapacityTokens == nil && v.Capacity > 0 {
		row.CapacityTokens = known[uint64](v.Capacity)
	}
}

// activeByHome returns the working set of each replica, longest first, and how many were
// left out.
func (c *control) activeByHome(model string) (homes map[int][]*lmwardenv1.Conversation, left map[int]uint32) {
	views := make(map[int][]route.ConversationView)
	c.plane.Conversations(model, func(v route.ConversationView) bool {
		if v.Active {
			views[v.Home] = append(views[v.Home], v)
		}
		return true
	})
	homes, left = make(map[int][]*lmwardenv1.Conversation), make(map[int]uint32)
	sources := c.keySources(model)
	for home, list := range views {
		slices.SortStableFunc(list, func(a, b route.ConversationView) int { return cmp.Compare(b.Working, a.Working) })
		left[home] = count(len(list) - cardConversations)
		for _, v := range list[:min(len(list), cardConversations)] {
			homes[home] = append(homes[home], conversation(v, sources))
		}
	}
	return homes, left
}

// keySources returns where the keys of the conversations in the history came from.
func (c *control) keySources(model string) map[route.Key]string {
	sources := make(map[route.Key]string)
	c.stats.Requests(stats.Filter{Model: model, Keep: func(r *proxy.Record) bool {
		if _, have := sources[r.Decision.Conversation]; r.Decided && !have {
			sources[r.Decision.Conversation] = r.KeySource
		}
		return false // only looked at
	}}, 0, 1)
	return sources
}

// conversation returns one conversation as shown.
func conversation(v route.ConversationView, sources map[route.Key]string) *lmwardenv1.Conversation {
	// The router's estimate of the cache runs ahead of the context, which is known only
	// when a turn ends: a cache holds no more of a conversation than there is of it.
	switch {
	case v.Context <= 0:
	case v.InFlight > 0:
		v.Context = max(v.Context, v.Resident)
	default:
		v.Resident = min(v.Resident, v.Context)
	}
	out := &lmwardenv1.Conversation{
		Id:             keyID(v.Key),
		Group:          keyID(v.Group),
		KeySource:      sources[v.Key],
		Home:           known[uint32](v.Home),
		ResidentTokens: uint64(max(v.Resident, 0)),
		InFlight:       count(v.InFlight),
		Turns:          v.Turns,
		LastActive:     stamp(v.LastActive),
		Subagent:       v.Agent,
		Admitted:       v.Admitted,
		Waiting:        v.Waits,
	}
	if v.Active {
		out.WorkingTokens = known[uint64](v.Working)
	}
	if v.Context > 0 {
		out.ContextTokens = known[uint64](v.Context)
	}
	return out
}
