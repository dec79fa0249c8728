package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/bench"
)

// liveStatus adds up the turns since the last status line. It is safe for concurrent
// use.
type liveStatus struct {
	mu             sync.Mutex
	all, errors    int
	prompt, cached int
	stayed, later  int
	first          []time.Duration
	lastError      error
}

func newLiveStatus() *liveStatus { return &liveStatus{} }

// add counts a turn.
func (l *liveStatus) add(turn bench.Turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case turn.Cut:
		return
	case turn.Err != nil:
		l.errors++
		l.lastError = turn.Err
		return
	}
	l.all++
	l.prompt += turn.Answer.Usage.Prompt
	l.cached += max(0, turn.Answer.Usage.Cached)
	l.first = append(l.first, turn.Answer.FirstToken)
	if stayed, known := turn.Stayed(); known {
		l.later++
		if stayed {
			l.stayed++
		}
	}
}

// line says how the traffic went since the last line, and begins anew.
func (l *liveStatus) line(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := now.Format(time.TimeOnly) + "  the turns are still being answered" // one takes its time
	if l.all > 0 {
		text = fmt.Sprintf("%s  %s", now.Format(time.TimeOnly), plural(l.all, "turn", "turns"))
	}
	if p50 := bench.QuantilesOf(l.first).P50; p50 != nil {
		text += fmt.Sprintf(", first token p50 %.2f s", *p50)
	}
	if l.prompt > 0 {
		text += fmt.Sprintf(", %.0f%% of the prompt from cache", 100*float64(l.cached)/float64(l.prompt))
	}
	if l.later > 0 {
		text += fmt.Sprintf(", %.0f%% stayed", 100*float64(l.stayed)/float64(l.later))
	}
	if l.errors > 0 {
		text += fmt.Sprintf(", %s, the last: %v", plural(l.errors, "error", "errors"), l.lastError)
	}
	l.all, l.errors, l.prompt, l.cached, l.stayed, l.later, l.first = 0, 0, 0, 0, 0, 0, nil
	return text
}

// print writes a line now and then until ctx ends.
func (l *liveStatus) print(ctx context.Context, a *app) {
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			fmt.Fprintln(a.err, l.line(now))
		}
	}
}
