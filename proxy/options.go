package proxy

import (
	"context"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// Options of a proxy. The zero value of each field is usable.
type Options struct {
	// Logger gets what an operator should know; nothing above debug per request.
	Logger zerolog.Logger
	// Registerer takes the metrics lmwarden_*; nil keeps them to itself.
	Registerer prometheus.Registerer
	// Recorder takes finished requests; nil drops them. When it has a method
	// Dropped() uint64 its count becomes the metric lmwarden_recorder_drops_total.
	Recorder Recorder
	// MaxBodyBytes is the longest request body; 0 means 64 MiB.
	MaxBodyBytes int64
	// MaxBufferedBytes is the most that the bodies of all requests may take together, in
	// bytes; 0 means 16 times MaxBodyBytes. A body is kept until its answer begins,
	// because it may have to be sent a second time, and is refused with 503 when there is
	// no room for it. What a body becomes for the engine comes on top, while it is sent.
	MaxBufferedBytes int64
	// SessionHeader is a header of your own that names the conversation and wins over
	// all others; empty for none.
	SessionHeader string
	// DialContext connects to engines; nil means TCP with a limit of 5 s.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Seed drives every random choice of the routers.
	Seed uint64

	// HeaderTimeout is how long an engine may take to send response headers; 0 means
	// without limit, because a long prefill is silent.
	HeaderTimeout time.Duration
	// StallTimeout is how long an engine may be silent once it has sent the headers;
	// 0 means 15 minutes. A stream sends its headers before the prefill.
	StallTimeout time.Duration
	// BodyReadTimeout is how long one read of a request body may take; 0 means 30 s.
	BodyReadTimeout time.Duration
	// BodyTimeout is how long a whole request body may take; 0 means 10 minutes.
	BodyTimeout time.Duration
	// WriteStallTimeout is how long a client may accept nothing of an answer, from the
	// last piece on that it took, of 32 KiB at most; 0 means 60 s. Then it counts as gone
	// and its place is free.
	WriteStallTimeout time.Duration
	// PingInterval is how often a stream that has no token yet gets a sign of life; 0
	// means 10 s.
	PingInterval time.Duration
}

// bodiesAtOnce is how many of the longest bodies may be held at once, unless it is set.
const bodiesAtOnce = 16

// withDefaults fills in what was left empty.
func (o Options) withDefaults() Options {
	if o.MaxBodyBytes <= 0 {
		o.MaxBodyBytes = 64 << 20
	}
	if o.MaxBufferedBytes <= 0 {
		o.MaxBufferedBytes = bodiesAtOnce * o.MaxBodyBytes
	}
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	if o.Recorder == nil {
		o.Recorder = noRecorder{}
	}
	setDefault(&o.StallTimeout, 15*time.Minute)
	setDefault(&o.BodyReadTimeout, 30*time.Second)
	setDefault(&o.BodyTimeout, 10*time.Minute)
	setDefault(&o.WriteStallTimeout, 60*time.Second)
	setDefault(&o.PingInterval, 10*time.Second)
	return o
}

// setDefault replaces a duration that was not set.
func setDefault(d *time.Duration, value time.Duration) {
	if *d <= 0 {
		*d = value
	}
}

// noRecorder drops every record.
type noRecorder struct{}

// Record does nothing.
func (noRecorder) Record(Record) {}
