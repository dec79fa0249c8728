package server

import (
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// Shares of the capacity at which the fit of a working set changes. The engine's cache
// is full well before it thrashes, and a turn in flight needs room for its answer.
const (
	fitEdge   = 0.85
	fitThrash = 1.0
)

// fitOf says how well the tokens of a working set fit a capacity, 0 when not known.
// Fill is the one over the other.
func fitOf(tokens, capacity int64) (fit lmwardenv1.Fit, fill float64) {
	if capacity <= 0 {
		return lmwardenv1.Fit_FIT_UNSPECIFIED, -1
	}
	fill = float64(tokens) / float64(capacity)
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
	fill float64 // tokens of the working set over capacity; negative when not known
	// tokens of the working set and capacity, over the replicas whose capacity is known.
	tokens, capacity int64
	replicas         int // of known capacity
	// mean is the size of a conversation of the working set without the shared prompt,
	// in tokens; 0 when there is none.
	mean int64
	// roomFor is how many more conversations of the present mean size have room;
	// negative when not known.
	roomFor int64
}

// fullnessOf sums over the replicas whose capacity is known. A conversation is at home
// on one replica, so that room is counted per replica: two halves are no room.
func fullnessOf(v route.View) fullness {
	f := fullness{roomFor: -1, mean: meanContext(v)}
	for _, r := range v.Replicas {
		if r.Capacity > 0 {
			f.tokens += r.ActiveTokens
			f.capacity += r.Capacity
			f.replicas++
		}
	}
	f.fit, f.fill = fitOf(f.tokens, f.capacity)
	if f.capacity == 0 || f.mean <= 0 {
		return f
	}
	f.roomFor = 0
	for _, r := range v.Replicas {
		f.roomFor += roomOn(v, r, f.mean)
	}
	return f
}

// roomOn returns how many more conversations of a mean size have room on a replica, 0
// when that is not known. While admission works they are those that it would let in.
func roomOn(v route.View, r route.ReplicaView, mean int64) int64 {
	switch {
	case mean <= 0, r.Closed:
		return 0
	case v.Holding && v.Waiting > 0 && v.Smallest <= mean:
		return 0 // one of that size waits, or may not pass who does
	case v.Holding:
		return placesIn(r.Free, mean, v.Reserve, r.Admitted == 0)
	}
	used := r.ActiveTokens
	if r.Active == 0 {
		used = max(v.SharedTokens, 0) // the first conversation brings the shared prompt
	}
	return max(0, r.Capacity-used) / mean
}

// placesIn returns for how many conversations of a size the door has room in so many tokens:
// each leaves the reserve for growth, but for one that has an empty replica to itself.
func placesIn(free, size, reserve int64, empty bool) int64 {
	n := max(0, free) / (size + reserve)
	if n == 0 && empty && free >= size {
		n = 1
	}
	return n
}

// meanContext returns the mean tokens of a conversation of the working set without the
// shared prompt, 0 when there is none.
func meanContext(v route.View) int64 {
	var tokens, n int64
	for _, r := range v.Replicas {
		if r.Active > 0 {
			tokens += r.ActiveTokens - max(v.SharedTokens, 0)
			n += int64(r.Active)
		}
	}
	if n == 0 {
		return 0
	}
	return max(0, tokens) / n
}
