package server

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/server/stats"
)

// Defaults of a query.
const (
	defaultSpan        = time.Hour
	defaultLatencySpan = 5 * time.Minute
	defaultBuckets     = 60
)

// statsService answers lmwarden.v1.StatsService.
type statsService struct{ *control }

var _ lmwardenv1connect.StatsServiceHandler = statsService{}

// QueryThroughput returns tokens a second over a span of time.
func (s statsService) QueryThroughput(_ context.Context, req *lmwardenv1.QueryThroughputRequest) (*lmwardenv1.QueryThroughputResponse, error) {
	t, err := s.throughput(req.GetModel(), span(req.GetSpan(), defaultSpan), req.GetMaxBuckets())
	return &lmwardenv1.QueryThroughputResponse{Throughput: t}, err
}

// span returns a span of time, or what an absent one means.
func span(d *durationpb.Duration, absent time.Duration) time.Duration {
	if d == nil {
		return absent
	}
	return d.AsDuration()
}

// throughput returns the throughput of a model, or of all when model is empty.
func (c *control) throughput(model string, over time.Duration, maxBuckets uint32) (*lmwardenv1.Throughput, error) {
	if err := c.knownOrAll(model); err != nil {
		return nil, err
	}
	if maxBuckets == 0 {
		maxBuckets = defaultBuckets
	}
	t := c.stats.Throughput(model, c.now(), over, int(maxBuckets))
	out := &lmwardenv1.Throughput{
		Model:       model,
		Step:        durationpb.New(t.Step),
		HitRateHour: hitRate(t.CachedHour, t.PromptHour),
		CachedHour:  t.CachedHour,
		PromptHour:  t.PromptHour,
	}
	for _, b := range t.Buckets {
		out.Buckets = append(out.Buckets, &lmwardenv1.ThroughputBucket{
			Start:               stamp(b.Start),
			CachedPerSecond:     b.Cached,
			ComputedPerSecond:   b.Computed,
			CompletionPerSecond: b.Completion,
			Requests:            b.Requests,
		})
	}
	return out, nil
}

func (c *control) knownOrAll(model string) error {
	if model == "" {
		return nil
	}
	_, err := c.models.get(model)
	return err
}

// QueryLatency returns latencies over a span of time.
func (s statsService) QueryLatency(_ context.Context, req *lmwardenv1.QueryLatencyRequest) (*lmwardenv1.QueryLatencyResponse, error) {
	if err := s.knownOrAll(req.GetModel()); err != nil {
		return nil, err
	}
	l := s.stats.Latency(req.GetModel(), s.now(), span(req.GetSpan(), defaultLatencySpan))
	return &lmwardenv1.QueryLatencyResponse{
		FirstTurns: quantiles(l.FirstTurns),
		LaterTurns: quantiles(l.LaterTurns),
		FirstToken: quantiles(l.FirstToken),
		Duration:   quantiles(l.Duration),
		Held:       quantiles(l.Held),
	}, nil
}

func quantiles(q stats.Quantiles) *lmwardenv1.Quantiles {
	if q.Count == 0 {
		return &lmwardenv1.Quantiles{}
	}
	return &lmwardenv1.Quantiles{
		Count: q.Count,
		Mean:  known[float64](q.Mean.Seconds()),
		P50:   known[float64](q.P50.Seconds()),
		P95:   known[float64](q.P95.Seconds()),
		P99:   known[float64](q.P99.Seconds()),
	}
}

// lastBuckets is how many buckets a watch sends after the first message: the one that
// fills and the one before, which its last requests may have reached late.
const lastBuckets = 2

// WatchStats sends the throughput of the wanted span now, then each new bucket.
func (s statsService) WatchStats(ctx context.Context, req *lmwardenv1.WatchStatsRequest, stream lmwardenv1connect.StatsServiceWatchStatsServerStream) error {
	first := true
	return watch(ctx, func() (*lmwardenv1.WatchStatsResponse, error) {
		t, err := s.throughput(req.GetModel(), span(req.GetSpan(), defaultSpan), req.GetMaxBuckets())
		if err != nil {
			return nil, err
		}
		whole := first
		first = false
		if n := len(t.GetBuckets()); !whole && n > lastBuckets {
			t.Buckets = t.GetBuckets()[n-lastBuckets:]
		}
		return &lmwardenv1.WatchStatsResponse{Throughput: t, Whole: whole}, nil
	}, stream.Send)
}

// ListRequests lists the latest requests, newest first.
func (s statsService) ListRequests(_ context.Context, req *lmwardenv1.ListRequestsRequest) (*lmwardenv1.ListRequestsResponse, error) {
	before, err := pageStart(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	filter := stats.Filter{Model: req.GetModel(), Keep: func(r *proxy.Record) bool { return wants(req, r) }}
	page, next := s.stats.Requests(filter, before, pageSize(req.GetPageSize()))
	out := &lmwardenv1.ListRequestsResponse{NextPageToken: pageToken(next)}
	for i := range page {
		out.Requests = append(out.Requests, requestRecord(&page[i]))
	}
	return out, nil
}

func wants(req *lmwardenv1.ListRequestsRequest, r *proxy.Record) bool {
	if c := req.GetConversation(); c != "" && (!r.Decided || !strings.HasPrefix(keyID(r.Decision.Conversation), c)) {
		return false
	}
	if d := req.GetDecision(); d != lmwardenv1.DecisionClass_DECISION_CLASS_UNSPECIFIED && (!r.Decided || decisionClass(r.Decision.Class) != d) {
		return false
	}
	return !req.GetFailed() || r.Error != "" || r.Status >= 400
}

// GetRequest returns one request of the history.
func (s statsService) GetRequest(_ context.Context, req *lmwardenv1.GetRequestRequest) (*lmwardenv1.GetRequestResponse, error) {
	record, err := s.request(req.GetId())
	return &lmwardenv1.GetRequestResponse{Request: record}, err
}
