package proxyload

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestCompare measures an engine directly and through a reverse proxy, and counts
// that each way got its streams.
func TestCompare(t *testing.T) {
	var asked atomic.Int64
	engine := &Engine{Model: "m"}
	direct := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		engine.ServeHTTP(w, r)
	}))
	defer direct.Close()
	target, err := url.Parse(direct.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
	defer proxy.Close()

	var cpu time.Duration
	figures, err := Compare(t.Context(), Options{
		Ways: []Way{
			{"direct", direct.URL + "/v1/chat/completions"},
			{"proxy", proxy.URL + "/v1/chat/completions"},
		},
		Streams:     10,
		Concurrency: 2,
		Rounds:      3,
		Body:        Body("m", 1000),
		CPU:         func() time.Duration { cpu += time.Millisecond; return cpu },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != 2 || figures[0].Name != "direct" || figures[1].Name != "proxy" {
		t.Fatalf("figures %+v", figures)
	}
	for _, f := range figures {
		if f.Streams != 10 || f.P50Micros <= 0 || f.P99Micros < f.P50Micros || f.StreamsPerSecond <= 0 {
			t.Errorf("figures %+v", f)
		}
		if f.CPUMicros != 300 { // one millisecond a round, three rounds, ten streams
			t.Errorf("%s: %g µs a stream, want 300", f.Name, f.CPUMicros)
		}
	}
	if got := asked.Load(); got != 2*(10+2) {
		t.Errorf("the engine was asked %d times, want 24 with the uncounted first streams", got)
	}
}

// TestCompareRefuses ends a comparison at the first stream that fails.
func TestCompareRefuses(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("data: {}\n\n")) }
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such model", http.StatusNotFound) }
	tests := []struct {
		name    string
		handler http.HandlerFunc
		streams int
		open    int
		want    string
	}{
		{"status", refuse, 4, 2, "through direct failed: status 404: no such model"},
		{"cut", cut, 4, 2, "ended before its last frame"},
		{"no streams", cut, 0, 2, "at least 1 stream, not 0"},
		{"nothing open", cut, 1, 0, "at a time, not 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			_, err := Compare(t.Context(), Options{Ways: []Way{{"direct", server.URL}}, Streams: test.streams, Concurrency: test.open})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
		})
	}
}
