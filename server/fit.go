package server

import (
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// Shares of the capacity at which the fit of live conversations changes. The
// engine's cache is full well before it thrashes, and a turn in flight needs room for
// its answer.
const (
	fitEdge   = 0.85
	fitThrash = 1.0
)

// fitOf says how well live tokens fit a capacity, 0 when not known. Fill is live over
// capacity.
func fitOf(live, capacity int64) (fit lmwardenv1.Fit, fill float64) {
	if capacity <= 0 {
		return lmwardenv1.Fit_FIT_UNSPECIFIED, -1
	}
	fill = float64(live) / float64(capacity)
	switch {
	case fill < fitEdge:
		return lmwardenv1.Fit_FIT_FITS, fill
	case fill <= fitThrash:
		return lmwardenv1.Fit_FIT_EDGE, fill
	}
	return lmwardenv1.Fit_FIT_THRASH, fill
}

// fullness is how full the caches of a whole model are.
type fullness struct {
	fit  lmwardenv1.Fit
	fill float64 // live tokens over capacity; negative when not known
	// roomFor is how many more conversations of the present mean size have room;
	// negative when not known.
	roomFor int64
}

// fullnessOf sums over the replicas whose capacity is known. A conversation lives on
// one replica, so that room is counted per replica: two halves are no room.
func fullnessOf(v route.View) fullness {
	var live, capacity int64
	for _, r := range v.Replicas {
		if r.Capacity > 0 {
			live += r.LiveTokens
			capacity += r.Capacity
		}
	}
	f := fullness{roomFor: -1}
	f.fit, f.fill = fitOf(live, capacity)
	mean := meanContext(v)
	if capacity == 0 || mean <= 0 {
		return f
	}
	f.roomFor = 0
	for _, r := range v.Replicas {
		used := r.LiveTokens
		if r.Live == 0 {
			used = max(v.SharedTokens, 0) // the first conversation brings the shared prompt
		}
		f.roomFor += max(0, r.Capacity-used) / mean
	}
	return f
}

// meanContext returns the mean tokens of a live conversation without the shared
// prompt, 0 when there is none.
func meanContext(v route.View) int64 {
	var tokens, live int64
	for _, r := range v.Replicas {
		if r.Live > 0 {
			tokens += r.LiveTokens - max(v.SharedTokens, 0)
			live += int64(r.Live)
		}
	}
	if live == 0 {
		return 0
	}
	return tokens / live
}
