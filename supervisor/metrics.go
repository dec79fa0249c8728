package supervisor

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics counts what happens to engines. The model label takes only names of specs.
type metrics struct {
	starts   *prometheus.CounterVec
	failures *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// newMetrics registers with reg, or nowhere when it is nil.
func newMetrics(reg prometheus.Registerer) metrics {
	factory := promauto.With(reg)
	return metrics{
		starts: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "lmwarden_engine_starts_total",
			Help: "Engine processes that were started.",
		}, []string{"model"}),
		failures: factory.NewCounterVec(prometheus.CounterOpts{
			Name: "lmwarden_engine_failures_total",
			Help: "Ends of engines that nobody asked for, by whether they had been ready.",
		}, []string{"model", "was_ready"}),
		seconds: factory.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lmwarden_engine_start_seconds",
			Help:    "Seconds from the start of an engine's process to its first answer.",
			Buckets: []float64{1, 5, 15, 30, 60, 120, 300, 600, 1800},
		}, []string{"model"}),
	}
}
