package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/route"
)

// thrashMessage says what does not fit and what would help, from measured figures.
func thrashMessage(m *lmwardenv1.Model, v route.View, full fullness) string {
	var advice []string
	if n := tooMany(full); n > 0 {
		advice = append(advice, fmt.Sprintf("run about %d fewer at once (the mean one takes %d tokens)", n, full.mean))
	}
	advice = append(advice, generalAdvice(m, full.fill)...)
	if len(v.Replicas) > 1 && v.SharedTokens > 0 && !remote(m.GetSpec()) {
		advice = append(advice, fmt.Sprintf("choose a layout with fewer, larger replicas (lmwarden layout plan): each of the %d keeps the %d shared tokens and its own copy of the weights", len(v.Replicas), v.SharedTokens))
	}
	message := fmt.Sprintf("The %d conversations of %s that are at work need %d of the %d tokens that its caches hold (%.0f %%) and evict each other.", v.Active, m.GetName(), full.tokens, full.capacity, 100*full.fill)
	if len(advice) == 0 {
		return message + " Another replica would help."
	}
	return message + " What helps: " + strings.Join(advice, "; or ") + "."
}

// mostReplicasNamed is how many replicas a message names.
const mostReplicasNamed = 8

// replicaThrashMessage says which replicas do not hold their conversations while the
// model as a whole may, and what would help.
func replicaThrashMessage(m *lmwardenv1.Model, v route.View, full fullness, over []int) string {
	var message string
	worst := 0.0
	for _, i := range over {
		worst = max(worst, filled(v.Replicas[i]))
	}
	if len(over) == 1 {
		r := v.Replicas[over[0]]
		message = fmt.Sprintf("Replica %d of %s has %d conversations at work that need %d of the %d tokens that its cache holds (%.0f %%) and evict each other.", over[0], m.GetName(), r.Active, r.ActiveTokens, r.Capacity, 100*worst)
	} else {
		message = fmt.Sprintf("Replicas %s of %s have more conversations at work than their caches hold; these evict each other.", namedReplicas(over, func(i int) string {
			return fmt.Sprintf("%d (%.0f %%)", i, 100*filled(v.Replicas[i]))
		}), m.GetName())
	}
	var advice []string
	if to, room := roomiest(v, full); room > 0 {
		advice = append(advice, fmt.Sprintf("move one to replica %d, which has room for %d more (lmwarden conversation move %s CONVERSATION %d)", to, room, m.GetName(), to))
	}
	advice = append(advice, generalAdvice(m, worst)...)
	if len(advice) == 0 {
		return message
	}
	return message + " What helps: " + strings.Join(advice, "; or ") + "."
}

// replicaFitsMessage says which replicas hold their conversations again.
func replicaFitsMessage(model string, v route.View, calm []int) string {
	if len(calm) == 1 {
		r := v.Replicas[calm[0]]
		return fmt.Sprintf("The %d conversations at work on replica %d of %s fit its cache again: %d of %d tokens.", r.Active, calm[0], model, r.ActiveTokens, r.Capacity)
	}
	return fmt.Sprintf("The conversations at work on replicas %s of %s fit their caches again.", namedReplicas(calm, strconv.Itoa), model)
}

// namedReplicas lists replicas as name has it, and how many are left out.
func namedReplicas(replicas []int, name func(int) string) string {
	var names []string
	for _, i := range replicas[:min(len(replicas), mostReplicasNamed)] {
		names = append(names, name(i))
	}
	if more := len(replicas) - len(names); more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// filled returns the fill of a replica's cache, -1 when it is not known.
func filled(r route.ReplicaView) float64 {
	_, fill := fitOf(r.ActiveTokens, r.Capacity)
	return fill
}

// roomiest returns the replica that has room for most conversations of the present mean
// size, and for how many.
func roomiest(v route.View, full fullness) (replica int, room int64) {
	for i, r := range v.Replicas {
		if n := roomOn(v, r, full.mean); n > room {
			replica, room = i, n
		}
	}
	return replica, room
}

// generalAdvice is what helps caches that are filled so far, whichever they are.
func generalAdvice(m *lmwardenv1.Model, fill float64) (advice []string) {
	if admissionInForce(m.GetRouting()) == lmwardenv1.Admission_ADMISSION_NONE {
		advice = append(advice, "switch admission to working_set, which lets in what fits and keeps the others in order")
	}
	const gains = "where the cards support it: it holds about twice the tokens, and these would take %.0f %%"
	switch {
	case remote(m.GetSpec()):
		advice = append(advice, fmt.Sprintf("run its engines with --kv-cache-dtype fp8, if they are not yet, "+gains, 50*fill))
	case m.GetSpec().GetKvCacheType() != lmwardenv1.KvCacheType_KV_CACHE_TYPE_FP8:
		advice = append(advice, fmt.Sprintf("set kv_cache_type to fp8, "+gains, 50*fill))
	}
	return advice
}

// tooMany returns how many conversations of the mean size are more than fits.
func tooMany(full fullness) int64 {
	if full.mean <= 0 || full.tokens <= full.capacity {
		return 0
	}
	return int64(math.Ceil(float64(full.tokens-full.capacity) / float64(full.mean)))
}

// admissionMessage says why nobody is held though admission is on; empty when it works
// and when it is off.
func admissionMessage(s route.Settings, v route.View) string {
	if s.Admission != route.AdmissionWorkingSet || v.Holding || len(v.Replicas) == 0 {
		return ""
	}
	if !s.Affinity {
		return "Nobody is held while affinity is off: there is no home whose cache could be kept."
	}
	for i, r := range v.Replicas {
		if r.Capacity <= 0 {
			return fmt.Sprintf("Nobody is held yet: replica %d has not told how many tokens its KV cache holds.", i)
		}
	}
	return "Nobody is held now: no replica is ready, or the figures of all engines are older than 10 s."
}
