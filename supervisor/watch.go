package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// watch waits for the end of a life: the root exits, the engine is dead although it
// runs, or somebody wants something else.
func (r *replica) watch(w wish, l *life) ending {
	answers := make(chan answer)
	ctx, stop := context.WithCancel(context.Background())
	var probing sync.WaitGroup
	defer probing.Wait()
	defer stop()
	p := r.newProber(w, l)
	probing.Go(func() { p.loop(ctx, answers) })

	look := time.NewTicker(r.sup.opts.Timing.Probe)
	defer look.Stop()
	var moved <-chan struct{}
	if l.pump != nil {
		moved = l.pump.moved
	}
	for {
		select {
		case <-l.exited:
			code, what := exit(l.state)
			return l.over(ending{exit: code, what: what})
		case <-r.wake:
			if r.changed(w) {
				return l.over(ending{asked: true, exit: -1})
			}
		case a := <-answers:
			if l.strange(a) {
				return l.over(ending{exit: -1, what: "Another engine answers on its port", cause: vllm.Cause{
					Kind:     vllm.PortTaken,
					Sentence: fmt.Sprintf("What answers on port %d does not know the key that this engine was given, so it belongs to somebody else. The next start takes another port.", l.lease.port),
				}})
			}
			if what := r.judge(l, a); what != "" {
				return l.over(ending{exit: -1, what: what})
			}
		case <-moved:
			r.follow(l)
		case <-look.C:
			r.follow(l)
			r.census(l)
		}
	}
}

// over completes an ending.
func (l *life) over(e ending) ending {
	if !l.readyAt.IsZero() {
		e.wasReady, e.readyFor = true, time.Since(l.readyAt)
	}
	return e
}

// judge takes one look at the engine, and says why it must be ended, or nothing. A
// failed reading of the figures never changes the state: it shows in their age.
func (r *replica) judge(l *life, a answer) (dead string) {
	now := time.Now()
	switch {
	case l.readyAt.IsZero() && a.ready:
		l.readyAt = now
		if l.family != nil {
			r.sup.count.seconds.WithLabelValues(r.id.Model).Observe(now.Sub(l.began).Seconds())
		}
	case !l.readyAt.IsZero() && now.Sub(l.readyAt) >= r.sup.opts.Timing.Stable:
		r.forgive()
	}
	if dead = l.verdict(a, now, r.sup.opts.Timing); dead != "" {
		return dead
	}
	r.update(func(s *Status) {
		s.Silent = false
		switch {
		case !l.readyAt.IsZero() && a.wedged != nil:
			s.State, s.Silent = Suspect, true
			s.Message = fmt.Sprintf("It hangs, although its health probe succeeds: %v. %s", a.wedged, l.outlook(r.sup.opts.Timing))
		case a.ready && a.health == nil:
			s.State, s.Message, s.Phase = Ready, "", ""
		case !l.readyAt.IsZero() && a.late:
			s.State = Suspect
			s.Message = fmt.Sprintf("Its health probe is slow, as that of a busy engine is: %v. It keeps its conversations and gets no new ones.", a.health)
		case !l.readyAt.IsZero():
			s.State, s.Silent = Suspect, true
			s.Message = fmt.Sprintf("Its health probe fails: %v.", a.health)
		case a.token != nil:
			s.Message = fmt.Sprintf("It is healthy, but does not answer a request for one token: %v.", a.token)
		case l.family == nil:
			s.Message = fmt.Sprintf("It does not answer: %v. Start it, or correct its address.", a.health)
		}
		s.Engine = l.combine(a.figures, s.Engine)
	})
	return ""
}

// strange tells whether the port of an engine that starts is answered by another one: a
// port that is free at the start may be bound by somebody else while the engine loads, and
// engines let each other share a port. It shows in the key, which each life has of its own.
func (l *life) strange(a answer) bool {
	var refused *statusError
	return l.readyAt.IsZero() && l.family != nil && l.key != "" &&
		errors.As(a.token, &refused) && refused.code == http.StatusUnauthorized
}

// verdict says why the engine counts as dead, or nothing. One that somebody else runs
// is never ended.
func (l *life) verdict(a answer, now time.Time, t Timing) string {
	mark(&l.sickAt, a.refused, now)
	mark(&l.wedgedAt, a.wedged != nil, now)
	switch {
	case l.readyAt.IsZero() || l.family == nil:
		return ""
	case a.refused && now.Sub(l.sickAt) >= t.DeadAfter:
		return fmt.Sprintf("The engine has refused every health probe for %s (%v), so it counts as dead", t.DeadAfter, a.health)
	case a.wedged != nil && now.Sub(l.wedgedAt) >= t.WedgedFor:
		return fmt.Sprintf("The engine hung for %s and more (%v), so it counts as dead", t.WedgedFor, a.wedged)
	}
	return ""
}

// mark notes since when something is so.
func mark(since *time.Time, is bool, now time.Time) {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// outlook says what becomes of an engine that hangs.
func (l *life) outlook(t Timing) string {
	if l.family == nil {
		return "Its conversations are served elsewhere; whoever runs it should restart it."
	}
	return fmt.Sprintf("Its conversations are served elsewhere; it is ended and started again unless it goes on within %s.", t.WedgedFor)
}

// combine takes the new figures, or when there are none keeps the old ones, and adds
// what only earlier readings and the log have told.
func (l *life) combine(now, old vllm.Figures) vllm.Figures {
	if now.At.IsZero() {
		now, old = old, now
	}
	now = now.Merge(old)
	if l.pump != nil {
		now = now.Merge(l.pump.heard().facts)
	}
	return now
}

// follow takes over what the log says, and reports a start that stands still.
func (r *replica) follow(l *life) {
	if l.pump == nil {
		return
	}
	h := l.pump.heard()
	quiet := time.Since(h.at)
	stalls := l.readyAt.IsZero() && quiet >= r.sup.opts.StallTimeout
	now := r.current()
	phase := cmp.Or(h.phase, now.Phase)
	if now.LastLine == h.line && (now.State != Starting || now.Phase == phase) && !stalls && !l.stalled {
		return
	}
	r.update(func(s *Status) {
		s.LastLine = h.line
		if s.State != Starting {
			return
		}
		s.Phase = phase
		switch {
		case stalls:
			s.Message = fmt.Sprintf("The start stands still: no new line in its log for %s. It goes on waiting; look at the log, and restart the replica if it hangs.", quiet.Round(time.Second))
		case l.stalled:
			s.Message = ""
		}
	})
	l.stalled = stalls
}

// census notes who belongs to the engine, now and then, so that a process that later
// loses its parents is known. It also reaps those that have lost theirs and ended.
func (r *replica) census(l *life) {
	const every = 10
	if l.family == nil {
		return
	}
	l.looks++
	if l.looks%every != 1 {
		return
	}
	if _, err := l.family.members(); err != nil {
		r.log.Warn().Err(err).Msg("the engine's processes cannot be counted")
	}
}
