package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// perReplica counts answers by the replica that gave them.
type perReplica map[string]int

// wantBetween checks that each of n replicas has a share in a range.
func (p perReplica) wantBetween(t *testing.T, what string, n, low, high int) {
	t.Helper()
	for i := range n {
		if got := p[fmt.Sprintf("m/%d", i)]; got < low || got > high {
			t.Errorf("%s: m/%d got %d, want %d to %d (%v)", what, i, got, low, high, p)
		}
	}
}

// New conversations spread by load, whatever their ids or prompts have in common.
func TestNewConversationsSpread(t *testing.T) {
	shared := strings.Repeat("the same system prompt. ", 400)
	for name, id := range map[string]func(i int) string{
		"ids":               func(i int) string { return fmt.Sprintf("conversation-number-%d", i) },
		"one is a prefix":   func(i int) string { return strings.Repeat("1", i+1) },
		"case is different": func(i int) string { return fmt.Sprintf("%c-conversation-%d", "Ss"[i%2], i/2) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 4, tokensUntilGone(time.Second))
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				got := perReplica{}
				for i := range 16 {
					body := fmt.Sprintf(`{"model":"m","stream":true,"messages":[{"role":"system","content":%q},{"role":"user","content":"hello"}]}`, shared)
					resp, err := b.client.Do(b.request(ctx, "/v1/chat/completions", body, "x-SESSION-id", id(i)))
					if err != nil {
						t.Fatal(err)
					}
					if d := resp.Header.Get(headerDecision); d != "placed" {
						t.Errorf("conversation %d is %s, want placed", i, d)
					}
					got[resp.Header.Get(headerReplica)]++
				}
				got.wantBetween(t, name, 4, 4, 4)
				cancel()
				b.wantIdle()
			})
		})
	}
}

// An idle pool is no reason to give everything to the first replica, not even after
// all conversations went idle.
func TestSequentialConversationsSpread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answers(1))
		for round := range 2 {
			got := perReplica{}
			for i := range 200 {
				r := b.post("/v1/chat/completions", chat("m", false), session(fmt.Sprintf("conversation-%d-number-%d", round, i))...)
				got[r.header.Get(headerReplica)]++
			}
			got.wantBetween(t, fmt.Sprintf("round %d", round), 4, 40, 60)
			<-time.After(5 * time.Hour)
		}
	})
}

// Requests without any id are no conversation of their own.
func TestUnkeyedRequestsSpread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answers(1))
		got := perReplica{}
		for range 100 {
			r := b.post("/v1/embeddings", `{"model":"m","input":"x"}`)
			if d := r.header.Get(headerDecision); d != "unkeyed" {
				t.Fatalf("got %s, want unkeyed", d)
			}
			got[r.header.Get(headerReplica)]++
		}
		got.wantBetween(t, "unkeyed", 4, 20, 30)
	})
}

// News about replicas, three times over, must not make a loaded one look free. Nor do
// they end what runs: not even on a replica that is no longer called ready.
func TestSnapshotsKeepTheLoad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, tokensUntilGone(time.Second))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for range 20 {
			b.openStream(ctx, headerRank, "0")
		}
		for range 3 {
			b.change(func(m *Model) { m.Replicas[0].Route.MetricsUnavailable = !m.Replicas[0].Route.MetricsUnavailable })
		}
		resp, _ := b.openStream(ctx, session("conversation-number-one")...)
		if got := resp.Header.Get(headerReplica); got == "m/0" {
			t.Error("the new conversation went to the loaded replica")
		}
		b.change(func(m *Model) { m.Replicas[0].Route.Ready = false })
		<-time.After(12 * time.Second)
		if n := b.proxy.InFlight("m/0"); n != 20 {
			t.Errorf("%d streams are left, want 20", n)
		}
		cancel()
		b.wantIdle()
	})
}

// Nothing that a client sends becomes a label.
func TestClientsMakeNoSeries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		rng := rand.New(rand.NewPCG(1, 1))
		send := func(n int) {
			for range n {
				word := fmt.Sprintf("w%d", rng.Uint64())
				b.post("/v1/chat/completions", chat(word, false), "X-Session-Id", word, "User-Agent", word)
				b.post("/v1/chat/completions", chat("claude-"+word, false), "X-Session-Id", word)
				b.post("/"+word, chat("m", false))
				r := b.request(context.Background(), "/v1/models", "")
				r.Method = "X" + strings.ToUpper(word)
				b.do(r)
			}
		}
		send(50)
		synctest.Wait()
		before := series(t, b.registry)
		send(2500) // requests of four kinds
		synctest.Wait()
		if after := series(t, b.registry); after != before {
			t.Errorf("%d series became %d", before, after)
		}
	})
}

// series counts the series of a registry.
func series(t *testing.T, r *prometheus.Registry) int {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "lmwarden_") {
			t.Errorf("metric %s", f.GetName())
		}
		n += len(f.GetMetric())
	}
	return n
}

// metric returns the sum of a counter or gauge over the series that have the labels.
func metric(t *testing.T, r *prometheus.Registry, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	next:
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if want, ok := labels[l.GetName()]; ok && want != l.GetValue() {
					continue next
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func TestMetricsCountWhatHappened(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(time.Millisecond)
			answers(1)(w, r)
		})
		for range 3 {
			b.post("/v1/chat/completions", chat("m", true), session("conversation-number-one")...)
		}
		b.post("/v1/chat/completions", chat("nope", true))
		ctx, cancel := context.WithCancel(context.Background())
		for _, e := range b.engines {
			e.does(func(w http.ResponseWriter, r *http.Request) {
				<-time.After(time.Millisecond)
				tokensUntilGone(time.Second)(w, r)
			})
		}
		b.openStream(ctx, session("conversation-number-one")...)
		if n := metric(t, b.registry, "lmwarden_requests_in_flight", nil); n != 1 {
			t.Errorf("in flight: got %v, want 1", n)
		}
		cancel()
		b.wantIdle()
		for _, c := range []struct {
			name   string
			labels map[string]string
			want   float64
		}{
			{"lmwarden_requests_total", map[string]string{"class": "placed", "code": "2xx"}, 1},
			{"lmwarden_requests_total", map[string]string{"class": "sticky", "code": "2xx"}, 2},
			{"lmwarden_requests_total", map[string]string{"code": "499"}, 1},
			{"lmwarden_refused_total", map[string]string{"model": "other", "code": "4xx"}, 1},
			{"lmwarden_requests_in_flight", nil, 0},
			{"lmwarden_tokens_total", map[string]string{"kind": "prompt_cached"}, 48},
			{"lmwarden_tokens_total", map[string]string{"kind": "prompt_computed"}, 12},
			{"lmwarden_tokens_total", map[string]string{"kind": "completion"}, 15},
			{"lmwarden_time_to_first_token_seconds", map[string]string{"model": "m"}, 4},
			{"lmwarden_request_duration_seconds", map[string]string{"model": "m"}, 4},
			{"lmwarden_conversation_key_sources_total", map[string]string{"source": "x-session-id"}, 4},
			{"lmwarden_retries_total", nil, 0},
			{"lmwarden_breaker_state", nil, 0},
		} {
			if got := metric(t, b.registry, c.name, c.labels); got != c.want {
				t.Errorf("%s%v: got %v, want %v", c.name, c.labels, got, c.want)
			}
		}
		b.proxy.Apply(&Snapshot{})
		if n := metric(t, b.registry, "lmwarden_requests_total", map[string]string{"model": "m"}); n != 0 {
			t.Error("a removed model keeps its series")
		}
	})
}

// dropping is a recorder that counts what it drops.
type dropping struct{}

func (dropping) Record(Record)   {}
func (dropping) Dropped() uint64 { return 7 }

func TestRecorderDropsAreAMetric(t *testing.T) {
	reg := prometheus.NewRegistry()
	p := New(Options{Registerer: reg, Recorder: dropping{}})
	defer p.Close()
	if got := metric(t, reg, "lmwarden_recorder_drops_total", nil); got != 7 {
		t.Errorf("got %v, want 7", got)
	}
}

func TestStatusIndex(t *testing.T) {
	for status, want := range map[int]string{200: "2xx", 404: "4xx", 499: "499", 502: "5xx", 0: "1xx", 999: "5xx", http.StatusSwitchingProtocols: "1xx"} {
		if got := statusLabels[statusIndex(status)]; got != want {
			t.Errorf("%d: got %s, want %s", status, got, want)
		}
	}
}
