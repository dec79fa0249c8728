package vllmd

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// choices are the next n choices of a balancer, none of which ends.
func choices(b *balancer, n int) string {
	var list []string
	for range n {
		list = append(list, fmt.Sprint(b.choose()))
	}
	return strings.Join(list, " ")
}

// TestBalancerRules checks the rules of the releases one by one.
func TestBalancerRules(t *testing.T) {
	busy := []load{{0, 9, 0}, {0, 0, 0}, {0, 3, 0}}
	for _, c := range []struct {
		name           string
		release        release
		clients, index int
		reports        []load
		want           string
	}{
		{"zeros are served in turn, from the same one on", 24, 1, 0, make([]load, 3), "0 1 2 0"},
		{"another server begins elsewhere", 24, 3, 1, make([]load, 3), "1 2 0 1"},
		{"what is known of ranks counts four times when it waits", 24, 1, 0, []load{{1, 0, 0}, {0, 5, 0}, {0, 3, 0}}, "2 0 1 2"},
		{"equal ones take turns by two steps, one of them for the tie", 25, 1, 0, make([]load, 3), "0 1 2 0"},
		{"the least loaded", 27, 1, 0, busy, "1 1 1 1"},
		{"its own requests count for all servers", 27, 4, 0, busy, "1 2 1 2"},
		{"a queue on a full cache counts for more", 27, 1, 0, []load{{4, 4, 1}, {0, 12, 1}, {30, 0, 0}}, "1 1 0 1"},
		{"a queue on an empty cache does not", 27, 1, 0, []load{{4, 4, 0.5}, {0, 12, 1}, {30, 0, 0}}, "0 0 0 0"},
	} {
		b := newBalancer(c.release, len(c.reports), c.clients, c.index)
		b.report(c.reports)
		if got := choices(b, 4); got != c.want {
			t.Errorf("%s: 0.%d chose %s, want %s", c.name, c.release, got, c.want)
		}
	}
}

// TestReportErasesOwnCount checks what a report of a moment before a request came does to
// the next choice: the earliest balancers forget the request, the next ones only take
// turns, and the latest still know that it is theirs and has not ended.
func TestReportErasesOwnCount(t *testing.T) {
	for r, want := range map[release]string{24: "0 0 0", 25: "0 1 0", 27: "0 1 1"} {
		b := newBalancer(r, 2, 1, 0)
		var got []string
		for range 3 {
			got = append(got, choices(b, 1))
			if got[len(got)-1] == "1" {
				b.landed(1) // the second rank is quick
			}
			b.report(make([]load, 2))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("0.%d chose %v, want %s", r, got, want)
		}
	}
}

// TestBlindAndSeeing pins requests to the first rank of a deployment with one API server
// and looks where others go: blind balancers share them out as if nothing were there.
func TestBlindAndSeeing(t *testing.T) {
	for _, version := range []string{"0.19", "0.24", "0.26", "0.27", "0.33"} {
		t.Run(version, func(t *testing.T) {
			// At this speed the long answers take minutes, far longer than what is looked at.
			s, url := testServerOf(t, version, 1, "-dp", "2", "--api-server-count", "1")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range 3 {
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/completions",
					strings.NewReader(`{"model":"tiny","prompt":"a long one","max_tokens":8000,"ignore_eos":true,"stream":true}`))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("X-Data-Parallel-Rank", "0")
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
			}
			waitFor(t, func() bool { return s.cores[0].busy() == 3 })
			for range 6 {
				if s.release.has(loadIsReported) {
					// What the balancer has added by itself is gone with the next report.
					waitFor(t, func() bool {
						s.fronts.mu.Lock()
						defer s.fronts.mu.Unlock()
						r := s.fronts.balancers[0].reports
						return r[0] == load{0, 3, r[0].usage} && r[1] == load{}
					})
				}
				post(t, url+"/v1/completions", `{"model":"tiny","prompt":"short","max_tokens":1}`)
			}
			served := metric(t, url, `vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"}`)
			// With taking turns it is three; a report of zeros may come between and begin anew
			// with the first.
			blind := !s.release.has(loadIsReported)
			if blind && served < "3.0" || !blind && served != "0.0" {
				t.Errorf("the busy rank served %s of six requests", served)
			}
		})
	}
}

// TestFrontsOfConnections checks that several API servers each have connections, and
// that a page of several has neither gauges of idle ranks nor figures of a process.
func TestFrontsOfConnections(t *testing.T) {
	s, url := testServer(t, "-dp", "2", "--api-server-count", "3")
	seen := map[any]bool{}
	for i := 0; len(seen) < 3; i++ {
		if i == 1000 {
			t.Fatalf("of three API servers only %v had connections", seen)
		}
		seen[s.accepted(t.Context(), nil).Value(frontKey{})] = true
	}
	_, page := send(t, http.MethodGet, url+"/metrics", "")
	for part, want := range map[string]bool{
		"process_start_time_seconds": false, "_created{": false, `vllm:num_requests_running{engine="1"`: false,
		`vllm:prompt_tokens_total{engine="1"`: true,
	} {
		if strings.Contains(page, part) != want {
			t.Errorf("the page of three API servers has %q: %t, want %t", part, !want, want)
		}
	}
}
