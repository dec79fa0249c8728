package server

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
)

// fitCalm is the fill below which a model that thrashed counts as calm again; the
// distance to the threshold keeps it from flapping.
const fitCalm = 0.95

// watchFit tells when the working set of a model no longer fits its caches, and when it
// fits again.
func (r *reconciler) watchFit(entries []*entry) {
	now := r.now()
	for _, e := range entries {
		view, ok := r.plane.View(e.name())
		if !ok {
			r.metrics.forget(e.name())
			continue
		}
		full := fullnessOf(view)
		r.metrics.set(e.name(), view, full, now)
		switch thrashes := r.thrashes[e.name()]; {
		case !thrashes && full.fit == lmwardenv1.Fit_FIT_THRASH:
			r.thrashes[e.name()] = true
			r.metrics.thrash.WithLabelValues(e.name()).Inc()
			r.events.Add(stats.Event{Severity: stats.Warning, Kind: "cache_thrash", Model: e.name(), Replica: -1, Message: thrashMessage(e.model, view, full)})
		case thrashes && full.fill < fitCalm:
			delete(r.thrashes, e.name())
			r.events.Add(stats.Event{Severity: stats.Note, Kind: "cache_fits", Model: e.name(), Replica: -1, Message: fmt.Sprintf("The %d conversations of %s that are at work fit its caches again: %d of %d tokens.", view.Active, e.name(), full.tokens, full.capacity)})
		}
	}
	r.metrics.keepOnly(entries)
}

// thrashMessage says what does not fit and what would help, from measured figures.
func thrashMessage(m *lmwardenv1.Model, v route.View, full fullness) string {
	var advice []string
	if n := tooMany(full); n > 0 {
		advice = append(advice, fmt.Sprintf("run about %d fewer at once (the mean one takes %d tokens)", n, full.mean))
	}
	if admissionInForce(m.GetRouting()) == lmwardenv1.Admission_ADMISSION_NONE {
		advice = append(advice, "switch admission to working_set, which lets in what fits and keeps the others in order")
	}
	if m.GetSpec().GetKvCacheType() != lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8 {
		advice = append(advice, fmt.Sprintf("set kv_cache_type to fp8, where the cards support it: it holds about twice the tokens, and these would take %.0f %%", 50*full.fill))
	}
	if len(v.Replicas) > 1 && v.SharedTokens > 0 {
		advice = append(advice, fmt.Sprintf("choose a layout with fewer, larger replicas (lmwarden layout plan): each of the %d keeps the %d shared tokens and its own copy of the weights", len(v.Replicas), v.SharedTokens))
	}
	message := fmt.Sprintf("The %d conversations of %s that are at work need %d of the %d tokens that its caches hold (%.0f %%) and evict each other.", v.Active, m.GetName(), full.tokens, full.capacity, 100*full.fill)
	if len(advice) == 0 {
		return message + " Another replica would help."
	}
	return message + " What helps: " + strings.Join(advice, "; or ") + "."
}

// tooMany returns how many conversations of the mean size are more than fits.
func tooMany(full fullness) int64 {
	if full.mean <= 0 || full.tokens <= full.capacity {
		return 0
	}
	return int64(math.Ceil(float64(full.tokens-full.capacity) / float64(full.mean)))
}

// admissionMessage says why nobody is held though admission is on; empty when it works
// and when it is off.
func admissionMessage(s route.Settings, v route.View) string {
	if s.Admission != route.AdmissionWorkingSet || v.Holding || len(v.Replicas) == 0 {
		return ""
	}
	if !s.Affinity {
		return "Nobody is held while affinity is off: there is no home whose cache could be kept."
	}
	for i, r := range v.Replicas {
		if r.Capacity <= 0 {
			return fmt.Sprintf("Nobody is held yet: replica %d has not told how many tokens its KV cache holds.", i)
		}
	}
	return "Nobody is held now: no replica is ready, or the engines' figures are older than 10 s."
}

// fitMetrics are what the loop measures of each model's working set.
type fitMetrics struct {
	fit    *prometheus.GaugeVec
	oldest *prometheus.GaugeVec
	room   *prometheus.GaugeVec
	thrash *prometheus.CounterVec
	known  map[string]bool // models that have series
}

// newFitMetrics makes the metrics and registers them; reg may be nil.
func newFitMetrics(reg prometheus.Registerer) *fitMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lmwarden_" + name, Help: help}, []string{"model"})
	}
	m := &fitMetrics{
		fit:    gauge("fit", "Tokens of the conversations at work over what the caches hold; above 1 they evict each other. Absent while a capacity is unknown."),
		oldest: gauge("queue_oldest_seconds", "How long the longest waiting request has been at the door; 0 when none waits."),
		room:   gauge("room_conversations", "How many more conversations of the present mean size have room. Absent when not known."),
		thrash: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lmwarden_thrash_total", Help: "How often the conversations at work outgrew the caches.",
		}, []string{"model"}),
		known: make(map[string]bool),
	}
	if reg != nil {
		reg.MustRegister(m.fit, m.oldest, m.room, m.thrash)
	}
	return m
}

// set takes over what a view of a model says.
func (m *fitMetrics) set(model string, v route.View, full fullness, now time.Time) {
	m.known[model] = true
	m.thrash.WithLabelValues(model) // a counter begins at 0
	if full.fill >= 0 {
		m.fit.WithLabelValues(model).Set(full.fill)
	} else {
		m.fit.DeleteLabelValues(model)
	}
	if full.roomFor >= 0 {
		m.room.WithLabelValues(model).Set(float64(full.roomFor))
	} else {
		m.room.DeleteLabelValues(model)
	}
	oldest := 0.0
	if v.Held > 0 {
		oldest = max(0, now.Sub(v.OldestHeld).Seconds())
	}
	m.oldest.WithLabelValues(model).Set(oldest)
}

// keepOnly drops the series of models that are gone.
func (m *fitMetrics) keepOnly(entries []*entry) {
	for model := range m.known {
		if !slices.ContainsFunc(entries, func(e *entry) bool { return e.name() == model }) {
			m.forget(model)
		}
	}
}

// forget drops the series of a model.
func (m *fitMetrics) forget(model string) {
	if !m.known[model] {
		return
	}
	delete(m.known, model)
	for _, v := range []interface{ DeleteLabelValues(...string) bool }{m.fit, m.oldest, m.room, m.thrash} {
		v.DeleteLabelValues(model)
	}
}
