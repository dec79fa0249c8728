package proxy

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// otherModel is the label of requests for a name that is no model: what clients send
// never becomes a label.
const otherModel = "other"

// statusLabels are the values of the label code, by the first digit of a status; 499,
// a client that left, has one of its own.
var statusLabels = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx", "499"}

// statusIndex returns the place of a status in statusLabels.
func statusIndex(status int) int {
	if status == statusClientGone {
		return len(statusLabels) - 1
	}
	return min(max(status/100-1, 0), len(statusLabels)-2)
}

// metrics are the metrics of a proxy. All labels come from closed sets: configured
// models, indexes of replicas, and constants.
type metrics struct {
	requests *prometheus.CounterVec
	refused  *prometheus.CounterVec
	inFlight *prometheus.GaugeVec
	breaker  *prometheus.GaugeVec
	held     *prometheus.GaugeVec
	tokens   *prometheus.CounterVec
	retries  *prometheus.CounterVec
	sources  *prometheus.CounterVec
	ttft     *prometheus.HistogramVec
	duration *prometheus.HistogramVec
}

// secondsBuckets span what a prefill and an answer take, in seconds.
var secondsBuckets = []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640}

// newMetrics makes the metrics and registers them; reg may be nil.
func newMetrics(reg prometheus.Registerer, recorder Recorder) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lmwarden_" + name, Help: help}, labels)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "lmwarden_" + name, Help: help}, labels)
	}
	seconds := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lmwarden_" + name, Help: help, Buckets: secondsBuckets,
		}, []string{"model"})
	}
	m := &metrics{
		requests: counter("requests_total", "Requests forwarded to a replica that have ended.", "model", "replica", "class", "code"),
		refused:  counter("refused_total", "Requests that reached no replica.", "model", "code"),
		inFlight: gauge("requests_in_flight", "Requests that a replica has.", "model", "replica"),
		breaker:  gauge("breaker_state", "0 closed, 1 half-open, 2 open.", "model", "replica"),
		held:     gauge("held", "Requests that wait at the door.", "model"),
		tokens:   counter("tokens_total", "Tokens, as the engines count them.", "model", "replica", "kind"),
		retries:  counter("retries_total", "Second attempts.", "model"),
		sources:  counter("conversation_key_sources_total", "Where conversation keys came from.", "model", "source"),
		ttft:     seconds("time_to_first_token_seconds", "From arrival to the first token of the answer."),
		duration: seconds("request_duration_seconds", "From arrival to the end of the answer."),
	}
	if reg == nil {
		return m
	}
	reg.MustRegister(m.requests, m.refused, m.inFlight, m.breaker, m.held, m.tokens, m.retries, m.sources, m.ttft, m.duration)
	if r, ok := recorder.(interface{ Dropped() uint64 }); ok {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "lmwarden_recorder_drops_total",
			Help: "Finished requests that the history dropped because its buffer was full.",
		}, func() float64 { return float64(r.Dropped()) }))
	}
	return m
}

// forgetModel drops the series of a model that is gone.
func (m *metrics) forgetModel(name string) {
	l := prometheus.Labels{"model": name}
	for _, v := range []interface {
		DeletePartialMatch(prometheus.Labels) int
	}{m.requests, m.refused, m.inFlight, m.breaker, m.held, m.tokens, m.retries, m.sources, m.ttft, m.duration} {
		v.DeletePartialMatch(l)
	}
}

// modelMetrics are the series of one model, looked up once.
type modelMetrics struct {
	all      *metrics
	name     string
	held     prometheus.Gauge
	retries  prometheus.Counter
	ttft     prometheus.Observer
	duration prometheus.Observer
	sources  [wire.NumSources]atomic.Pointer[prometheus.Counter] // looked up when first counted
}

// source counts where a conversation key came from.
func (m *modelMetrics) source(s wire.Source) {
	c := m.sources[s].Load()
	if c == nil {
		made := m.all.sources.WithLabelValues(m.name, s.String())
		m.sources[s].Store(&made)
		c = &made
	}
	(*c).Inc()
}

// model returns the series of a model.
func (m *metrics) model(name string) *modelMetrics {
	return &modelMetrics{
		all:      m,
		name:     name,
		held:     m.held.WithLabelValues(name),
		retries:  m.retries.WithLabelValues(name),
		ttft:     m.ttft.WithLabelValues(name),
		duration: m.duration.WithLabelValues(name),
	}
}

// replicaMetrics are the series of one replica, looked up once.
type replicaMetrics struct {
	all                          *metrics
	model, index                 string
	inFlight, breaker            prometheus.Gauge
	cached, computed, completion prometheus.Counter
	// requests are looked up when first counted, so that classes that never occur make
	// no series.
	requests [route.NumClasses][len(statusLabels)]atomic.Pointer[prometheus.Counter]
}

// replica returns the series of a replica of a model, by index.
func (m *metrics) replica(model, index string) *replicaMetrics {
	return &replicaMetrics{
		all:        m,
		model:      model,
		index:      index,
		inFlight:   m.inFlight.WithLabelValues(model, index),
		breaker:    m.breaker.WithLabelValues(model, index),
		cached:     m.tokens.WithLabelValues(model, index, "prompt_cached"),
		computed:   m.tokens.WithLabelValues(model, index, "prompt_computed"),
		completion: m.tokens.WithLabelValues(model, index, "completion"),
	}
}

// forget drops the series of a replica that is gone.
func (r *replicaMetrics) forget() {
	l := prometheus.Labels{"model": r.model, "replica": r.index}
	r.all.requests.DeletePartialMatch(l)
	r.all.inFlight.DeletePartialMatch(l)
	r.all.breaker.DeletePartialMatch(l)
	r.all.tokens.DeletePartialMatch(l)
}

// ended counts a request that the replica had.
func (r *replicaMetrics) ended(class route.Class, status int) {
	i := statusIndex(status)
	slot := &r.requests[class][i]
	c := slot.Load()
	if c == nil {
		made := r.all.requests.WithLabelValues(r.model, r.index, class.String(), statusLabels[i])
		slot.Store(&made)
		c = &made
	}
	(*c).Inc()
}

// count adds the tokens of an answer; -1 stands for what the engine did not report.
// Prompt tokens that it did not report as cached were computed.
func (r *replicaMetrics) count(prompt, cached, completion int) {
	if prompt >= 0 {
		c := min(max(cached, 0), prompt)
		r.cached.Add(float64(c))
		r.computed.Add(float64(prompt - c))
	}
	if completion > 0 {
		r.completion.Add(float64(completion))
	}
}
