package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"strings"
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
	p := &prober{client: r.sup.client, base: strings.TrimSuffix(l.url, "/"), key: l.key, served: w.spec.ServedModel, timing: r.sup.opts.Timing}
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
			if r.judge(l, a) {
				return l.over(ending{exit: -1, what: fmt.Sprintf("The engine has refused every health probe for %s (%v), so it counts as dead", r.sup.opts.Timing.DeadAfter, a.health)})
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

// judge takes one look at the engine, and says whether it is dead. A failed reading of
// the figures never changes the state: it shows in their age.
func (r *replica) judge(l *life, a answer) (dead bool) {
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
	switch {
	case !a.refused:
		l.sickAt = time.Time{}
	case l.sickAt.IsZero():
		l.sickAt = now
	}
	if !l.readyAt.IsZero() && l.family != nil && a.refused && now.Sub(l.sickAt) >= r.sup.opts.Timing.DeadAfter {
		return true
	}
	r.update(func(s *Status) {
		s.Silent = false
		switch {
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
	return false
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
