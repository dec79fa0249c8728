package proxyload

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestCompare measures an engine directly and through a reverse proxy, and counts that
// each way got its streams, paced and not.
func TestCompare(t *testing.T) {
	for _, load := range []Load{{Connections: 2, Streams: 10}, {Connections: 3, Streams: 7, Pace: 10 * time.Millisecond}} {
		t.Run(load.String(), func(t *testing.T) {
			var asked atomic.Int64
			engine := &Engine{Model: model}
			direct := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				engine.ServeHTTP(w, r)
			}))
			defer direct.Close()
			bare, err := newBare([]string{direct.URL})
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(bare)
			defer proxy.Close()
			var used time.Duration
			var turns []string
			figures, err := Compare(t.Context(), Options{
				Ways: []Way{
					{Name: Direct, URLs: []string{direct.URL + streamPath}},
					{Name: Bare, URLs: []string{proxy.URL + streamPath}, CPU: func() (time.Duration, error) { used += time.Millisecond; return used, nil }},
				},
				Load: load, Rounds: 3, Body: Body(model, 1000), SetPace: engine.SetPace,
				Progress: func(what string) { turns = append(turns, what[strings.LastIndex(what, ", ")+2:]) },
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(figures) != 2 || figures[0].Name != Direct || figures[1].Name != Bare {
				t.Fatalf("figures %+v", figures)
			}
			for _, f := range figures {
				if f.Streams != load.Streams || f.P50Micros <= 0 || f.P99Micros < f.P50Micros || f.StreamsPerSecond <= 0 {
					t.Errorf("figures %+v", f)
				}
			}
			// One millisecond a round, three rounds.
			if cpu := figures[1].CPUMicros; cpu == nil || *cpu != micros(3*time.Millisecond/time.Duration(load.Streams)) || figures[0].CPUMicros != nil {
				t.Errorf("processor time %v and %v", figures[0].CPUMicros, cpu)
			}
			if got, want := int(asked.Load()), 2*(load.Streams+3*load.Connections); got != want {
				t.Errorf("the engine was asked %d times, want %d with the streams that do not count", got, want)
			}
			if want := []string{Direct, Bare, Bare, Direct, Bare, Direct}; !slices.Equal(turns, want) {
				t.Errorf("turns %q, want %q", turns, want)
			}
		})
	}
}

// TestOrder has each way once at each place, and after each other as often as before.
func TestOrder(t *testing.T) {
	for n := 1; n <= 5; n++ {
		at := make([][]int, n)
		before := map[[2]int]int{}
		for round := range 2 * n {
			places := order(n, round)
			for place, way := range places {
				at[way] = append(at[way], place)
				if place > 0 {
					before[[2]int{places[place-1], way}]++
				}
			}
		}
		for way, places := range at {
			slices.Sort(places)
			for i, place := range places {
				if place != i/2 {
					t.Fatalf("%d ways: way %d was at the places %v", n, way, places)
				}
			}
		}
		for pair, times := range before {
			if back := before[[2]int{pair[1], pair[0]}]; back != times {
				t.Errorf("%d ways: %v in this order %d times and %d times in the other", n, pair, times, back)
			}
		}
	}
}

// TestCompareRefuses ends a comparison at the first stream that fails.
func TestCompareRefuses(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("data: {}\n\n")) }
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such model", http.StatusNotFound) }
	whole := (&Engine{Model: model}).ServeHTTP
	good := Load{Connections: 2, Streams: 4}
	gone := func() (time.Duration, error) { return processorTime(1 << 27) }
	tests := []struct {
		name    string
		handler http.HandlerFunc
		load    Load
		rounds  int
		cpu     func() (time.Duration, error)
		want    string
	}{
		{"status", refuse, good, 1, nil, "through direct failed: status 404: no such model"},
		{"cut", cut, good, 1, nil, "ended before its last frame"},
		{"no meter", whole, good, 1, gone, "the processor time of direct cannot be read"},
		{"no streams", whole, Load{Connections: 2}, 1, nil, "at least 1 stream, not 0"},
		{"nothing open", whole, Load{Streams: 1}, 1, nil, "at a time, not 0"},
		{"no time", whole, Load{Connections: 1, Streams: 1, Pace: -1}, 1, nil, "cannot take -1ns"},
		{"no rounds", whole, good, 0, nil, "at least 1 round, not 0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(test.handler)
			defer server.Close()
			way := Way{Name: Direct, URLs: []string{server.URL + streamPath}, CPU: test.cpu}
			_, err := Compare(t.Context(), Options{Ways: []Way{way}, Load: test.load, Rounds: test.rounds})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want one with %q", err, test.want)
			}
		})
	}
	if err := (Options{Ways: []Way{{Name: Ours}}}).Validate(); err == nil || !strings.Contains(err.Error(), "lmwarden leads nowhere") {
		t.Errorf("a way without a URL: %v", err)
	}
}

// TestPacedStreamTakesItsTime: no piece comes before its time, and the first at once.
func TestPacedStreamTakesItsTime(t *testing.T) {
	const pace = 64 * time.Millisecond
	engine := &Engine{Model: model}
	engine.SetPace(pace)
	server := httptest.NewServer(engine)
	defer server.Close()
	start := time.Now()
	resp, err := http.Post(server.URL+streamPath, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || strings.Count(string(body), `"content":" token"`) != Chunks || !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Errorf("%v, got %s", err, body)
	}
	if took, least := time.Since(start), pace*(Chunks-1)/Chunks; took < least {
		t.Errorf("it took %s, want at least %s", took, least)
	}
}

// TestRatios compares ours with what is there.
func TestRatios(t *testing.T) {
	cpu := func(v float64) *float64 { return &v }
	ways := []Figures{
		{Name: Direct, P50Micros: 100, P99Micros: 200},
		{Name: Bare, P50Micros: 200, P99Micros: 500, CPUMicros: cpu(150)},
		{Name: Ours, P50Micros: 210, P99Micros: 400, CPUMicros: cpu(120)},
	}
	got := NewReport(Load{Connections: 5, Pace: time.Second}, ways)
	if got.TTFBRatio.Bare != 1.05 || got.TTFBP99Ratio.Bare != 0.8 || got.CPURatio.Bare != 0.8 || got.CPURatio.Nginx != nil {
		t.Errorf("without nginx %+v", got)
	}
	if got.Connections != 5 || got.PaceSeconds != 1 || got.P50 != 210 || got.P99 != 400 {
		t.Errorf("report %+v", got)
	}
	got = NewReport(Load{}, append(ways, Figures{Name: Nginx, P50Micros: 140, P99Micros: 400, CPUMicros: cpu(60)}))
	if n := got.TTFBRatio.Nginx; n == nil || *n != 1.5 || *got.TTFBP99Ratio.Nginx != 1 || *got.CPURatio.Nginx != 2 {
		t.Errorf("with nginx %+v", got)
	}
}

// TestBareServes passes streams on to each of its targets in turn.
func TestBareServes(t *testing.T) {
	var targets []string
	var asked [2]atomic.Int64
	for i := range asked {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked[i].Add(1)
			(&Engine{Model: model}).ServeHTTP(w, r)
		}))
		defer server.Close()
		targets = append(targets, server.URL)
	}
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var served sync.WaitGroup
	served.Go(func() {
		if err := ServeBare(ctx, w, targets); err != nil {
			t.Error(err)
		}
	})
	defer served.Wait()
	defer stop()
	said := make([]byte, 100)
	n, err := r.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Fields(string(said[:n]))
	way := Way{Name: Bare, URLs: []string{line[len(line)-1] + streamPath}}
	if _, err := Compare(t.Context(), Options{Ways: []Way{way}, Load: Load{Connections: 1, Streams: 3}, Rounds: 1, Body: Body(model, 10)}); err != nil {
		t.Fatal(err)
	}
	if asked[0].Load() != 2 || asked[1].Load() != 2 {
		t.Errorf("asked %d and %d times, want 2 and 2", asked[0].Load(), asked[1].Load())
	}
	if err := ServeBare(ctx, io.Discard, nil); err == nil {
		t.Error("without an engine it must not start")
	}
}
