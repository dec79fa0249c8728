package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// fitMetrics are what the loop measures of each model's working set.
type fitMetrics struct {
	fit    *prometheus.GaugeVec
	oldest *prometheus.GaugeVec
	room   *prometheus.GaugeVec
	thrash *prometheus.CounterVec

	replicaFit    *prometheus.GaugeVec
	replicaThrash *prometheus.CounterVec

	known map[string]int // number of replicas of the models that have series
}

// newFitMetrics makes the metrics and registers them; reg may be nil.
func newFitMetrics(reg prometheus.Registerer) *fitMetrics {
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lmwarden_" + name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lmwarden_" + name, Help: help}, labels)
	}
	m := &fitMetrics{
		fit:    gauge("fit", "Tokens of the conversations at work over what the caches hold; above 1 they evict each other. Absent while a capacity is unknown.", "model"),
		oldest: gauge("queue_oldest_seconds", "How long the longest waiting request has been at the door; 0 when none waits.", "model"),
		room:   gauge("room_conversations", "How many more conversations of the present mean size have room; while admission works, how many it would let in. Absent when not known.", "model"),
		thrash: counter("thrash_total", "How often the conversations at work outgrew the caches.", "model"),

		replicaFit:    gauge("replica_fit", "Tokens of the conversations at work on a replica over what its cache holds; above 1 they evict each other. Absent while its capacity is unknown.", "model", "replica"),
		replicaThrash: counter("replica_thrash_total", "How often the conversations at work on a replica outgrew its cache.", "model", "replica"),

		known: make(map[string]int),
	}
	if reg != nil {
		reg.MustRegister(m.fit, m.oldest, m.room, m.thrash, m.replicaFit, m.replicaThrash)
	}
	return m
}

// set takes over what a view of a model says.
func (m *fitMetrics) set(model string, v route.View, full fullness, now time.Time) {
	m.shrink(model, len(v.Replicas))
	m.known[model] = len(v.Replicas)
	m.thrash.WithLabelValues(model) // a counter begins at 0
	setOrDrop(m.fit, full.fill, model)
	setOrDrop(m.room, float64(full.roomFor), model)
	oldest := 0.0
	if v.Held > 0 {
		oldest = max(0, now.Sub(v.OldestHeld).Seconds())
	}
	m.oldest.WithLabelValues(model).Set(oldest)
	for i, r := range v.Replicas {
		index := strconv.Itoa(i)
		m.replicaThrash.WithLabelValues(model, index)
		setOrDrop(m.replicaFit, filled(r), model, index)
	}
}

// setOrDrop sets a gauge, or drops it while its figure is negative: not known.
func setOrDrop(g *prometheus.GaugeVec, value float64, labels ...string) {
	if value < 0 {
		g.DeleteLabelValues(labels...)
		return
	}
	g.WithLabelValues(labels...).Set(value)
}

// crossed counts that a model or some of its replicas have begun to thrash.
func (m *fitMetrics) crossed(model string, whole bool, replicas []int) {
	if whole {
		m.thrash.WithLabelValues(model).Inc()
	}
	for _, i := range replicas {
		m.replicaThrash.WithLabelValues(model, strconv.Itoa(i)).Inc()
	}
}

// dropIf drops the series of the models that gone names.
func (m *fitMetrics) dropIf(gone func(model string) bool) {
	for model := range m.known {
		if gone(model) {
			m.forget(model)
		}
	}
}

// forget drops the series of a model.
func (m *fitMetrics) forget(model string) {
	if _, ok := m.known[model]; !ok {
		return
	}
	m.shrink(model, 0)
	delete(m.known, model)
	for _, v := range []interface{ DeleteLabelValues(...string) bool }{m.fit, m.oldest, m.room, m.thrash} {
		v.DeleteLabelValues(model)
	}
}

// shrink drops the series of the replicas that a model has no more.
func (m *fitMetrics) shrink(model string, replicas int) {
	for i := replicas; i < m.known[model]; i++ {
		m.replicaFit.DeleteLabelValues(model, strconv.Itoa(i))
		m.replicaThrash.DeleteLabelValues(model, strconv.Itoa(i))
	}
}
