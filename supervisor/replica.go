package supervisor

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rs/zerolog"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// replica runs one engine. Its goroutine (run) is the only writer of its state; the
// methods that others call leave a wish and wake it.
type replica struct {
	sup  *Supervisor
	id   ReplicaID
	book *logbook
	log  zerolog.Logger
	wake chan struct{} // a new wish; room for one

	status atomic.Pointer[Status] // written by run only

	mu     sync.Mutex // guards what follows
	want   wish
	closed bool // run has ended, or is about to without looking again

	// Owned by run.
	policy policy
	avoid  int // port that turned out to be taken
}

// wish is what others want of a replica. The generation counts wishes, so that what
// was decided for one is never done to the engine of the next.
type wish struct {
	generation uint64
	spec       Spec
	gone       bool
}

func startReplica(s *Supervisor, spec Spec, book *logbook) *replica {
	r := &replica{
		sup:    s,
		id:     spec.ID,
		book:   book,
		log:    s.opts.Logger.With().Str("model", spec.ID.Model).Int("replica", spec.ID.Index).Logger(),
		wake:   make(chan struct{}, 1),
		want:   wish{generation: 1, spec: spec},
		policy: policy{t: s.opts.Timing},
	}
	r.status.Store(&Status{ID: spec.ID, State: Stopped, Since: time.Now(), GPUs: spec.GPUs, LastExit: -1})
	go r.run()
	return r
}

// assign wishes for a spec. It returns false when the replica has ended, so that a new
// one must be made.
func (r *replica) assign(spec Spec) bool {
	return r.wishFor(func(w *wish) bool {
		if !w.gone && reflect.DeepEqual(w.spec, spec) {
			return false
		}
		w.spec, w.gone = spec, false
		return true
	})
}

// restart wishes for a new life. It returns false when the replica is on its way out.
func (r *replica) restart() bool {
	leaves := false
	there := r.wishFor(func(w *wish) bool {
		leaves = w.gone
		return !leaves
	})
	return there && !leaves
}

func (r *replica) remove() {
	r.wishFor(func(w *wish) bool {
		changed := !w.gone
		w.gone = true
		return changed
	})
}

// wishFor changes the wish and wakes run when change says that there is news. It
// returns false when nobody is there to wake.
func (r *replica) wishFor(change func(*wish) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	if !change(&r.want) {
		return true
	}
	r.want.generation++
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

func (r *replica) wanted() wish {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want
}

func (r *replica) changed(w wish) bool { return r.wanted().generation != w.generation }

// leave ends the replica, unless it is wanted again.
func (r *replica) leave() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = r.want.gone
	return r.closed
}

func (r *replica) current() Status { return *r.status.Load() }

// update publishes a changed status. Only run may call it.
func (r *replica) update(change func(*Status)) {
	s := r.current()
	before := s.State
	change(&s)
	if s.State != before {
		s.Since = time.Now()
		r.log.Info().Str("from", string(before)).Str("to", string(s.State)).Str("why", s.Message).Msg("replica changed")
	}
	r.status.Store(&s)
	if r.sup.opts.Hooks.Changed != nil {
		r.sup.opts.Hooks.Changed(s)
	}
}

// run is the replica's goroutine: one life after another, until nobody wants it.
func (r *replica) run() {
	defer r.sup.forget(r)
	for {
		w := r.wanted()
		if w.gone {
			if r.leave() {
				r.update(func(s *Status) {
					*s = s.ended(Stopped, "")
					s.GPUs = nil
				})
				return
			}
			continue
		}
		e := r.live(w)
		if e.asked || r.changed(w) {
			r.forgive()
			continue
		}
		r.settle(w, e)
	}
}

// live is one life, from the cards to the last process.
func (r *replica) live(w wish) ending {
	if !r.takeCards(w) {
		return ending{asked: true, exit: -1}
	}
	defer r.sup.cards.give(r.id)
	r.update(func(s *Status) {
		*s = s.ended(Starting, "")
		s.GPUs, s.Phase = w.spec.GPUs, "starting the process"
	})
	l, err := r.begin(w.spec)
	if err != nil {
		if isFull(err) {
			why := fmt.Sprintf("There is no space left in %s (%v). Free some.", r.sup.opts.DataDir, err)
			return ending{exit: -1, what: "The engine could not be started", cause: vllm.Cause{Sentence: why}, full: true}
		}
		cause := vllm.Cause{Sentence: capital(err.Error()) + "."}
		var start *startError
		if errors.As(err, &start) {
			cause.Kind = start.kind
		}
		return ending{exit: -1, what: "The engine could not be started", cause: cause}
	}
	r.update(func(s *Status) {
		s.PID, s.Port, s.URL, s.Command = l.record.PID, l.lease.port, l.url, l.command
		s.Incarnation, s.APIKey = l.record.Incarnation, l.key
	})
	e := r.watch(w, l)
	why := "It is stopped: requests in flight are given time to finish."
	if !e.asked {
		why = e.what + ". What is left of it is ended."
	}
	r.update(func(s *Status) { s.State, s.Message, s.Phase = Stopping, why, "" })
	if e.wasReady {
		r.drain(e.asked)
	}
	r.finish(l, e.asked)
	r.conclude(l, &e)
	return e
}

// takeCards waits until no other replica holds a card of ours; false when the wish
// changed before.
func (r *replica) takeCards(w wish) bool {
	for {
		uuid, by, freed := r.sup.cards.take(r.id, w.spec.GPUs)
		if freed == nil {
			return true
		}
		r.update(func(s *Status) {
			*s = s.ended(Starting, fmt.Sprintf("Card %s is still held by model %s replica %d; the start waits for its end.", uuid, by.Model, by.Index))
			s.Phase = "waiting for a card"
		})
		for waiting := true; waiting; {
			select {
			case <-freed:
				waiting = false
			case <-r.wake:
				if r.changed(w) {
					return false
				}
			}
		}
	}
}

// conclude adds what only the whole log tells, once the pipe has ended.
func (r *replica) conclude(l *life, e *ending) {
	if l.pump == nil {
		return
	}
	h := l.pump.heard()
	e.last = h.last
	if h.failed && !e.asked && e.cause.Sentence == "" {
		e.cause = h.cause
		// The log does not say which address. When its port is free it may have wanted another
		// one, which a further argument or the environment names: the next start wants it too.
		if e.cause.Kind == vllm.PortTaken && free(l.lease.port) {
			e.cause.Sentence = "An address that the engine wants is in use, and it is not its port; its log may say which. End what holds it, or change the argument or variable that names it."
		}
	}
	r.avoid = 0
	if e.cause.Kind == vllm.PortTaken {
		r.avoid, e.portLost = l.lease.port, !free(l.lease.port)
	}
	r.update(func(s *Status) {
		s.LastLine, s.LastExit = h.line, e.exit
		s.PID, s.Port = 0, 0
	})
}

// settle decides what follows a failure, and waits for the next start or a new wish.
func (r *replica) settle(w wish, e ending) {
	r.sup.count.failures.WithLabelValues(r.id.Model, strconv.FormatBool(e.wasReady)).Inc()
	v := r.policy.ended(e, time.Now())
	var next <-chan time.Time
	if v.again {
		timer := time.NewTimer(v.wait)
		defer timer.Stop()
		next = timer.C
	}
	r.update(func(s *Status) {
		s.Restarts = v.failures
		if v.again {
			*s = s.ended(Backoff, sentences(e.what, e.cause.Sentence, e.outlook(v)))
			s.NextStart = time.Now().Add(v.wait)
			return
		}
		*s = s.ended(Failed, sentences(e.what, e.cause.Sentence, giveUp(v, e), quote(e.last)))
	})
	for {
		select {
		case <-next:
			return
		case <-r.wake:
			if r.changed(w) {
				r.forgive()
				return
			}
		}
	}
}

// forgive begins a new budget: a person acted, or the engine has run well for long.
func (r *replica) forgive() {
	r.policy.forget()
	if r.current().Restarts != 0 {
		r.update(func(s *Status) { s.Restarts = 0 })
	}
}

// outlook says what a person cannot know from a failure and the time of the next start.
func (e ending) outlook(v verdict) string {
	if !e.full {
		return ""
	}
	return fmt.Sprintf("It is tried again in %s, and so on until there is", v.wait.Round(time.Second))
}

// giveUp says why there is no further start.
func giveUp(v verdict, e ending) string {
	switch {
	case e.cause.Kind == vllm.Configuration && !e.wasReady:
		return "Starting it again would not help; it needs a person. Change what is wrong and start it again."
	case e.wasReady:
		return fmt.Sprintf("It ended %d times within the hour, so it needs a person. Restart it when the cause is gone.", v.failures)
	default:
		return fmt.Sprintf("%d starts in a row failed, so it needs a person. Restart it when the cause is gone.", v.failures)
	}
}

// ended is the status without what belongs to a life.
func (s Status) ended(state State, message string) Status {
	return Status{
		ID: s.ID, State: state, Message: message, Since: s.Since, GPUs: s.GPUs,
		Incarnation: s.Incarnation, Restarts: s.Restarts, LastLine: s.LastLine,
		LastExit: s.LastExit, Command: s.Command,
	}
}

// sentences joins what is not empty, each with one full stop.
func sentences(parts ...string) string {
	var all []string
	for _, p := range parts {
		if p = strings.TrimSpace(p); p != "" {
			all = append(all, strings.TrimSuffix(p, ".")+".")
		}
	}
	return strings.Join(all, " ")
}

// quote shows the last lines of a log.
func quote(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	const most = 200
	short := make([]string, len(lines))
	for i, l := range lines {
		if len(l) > most {
			l = strings.ToValidUTF8(l[:most], "") + "…"
		}
		short[i] = "“" + l + "”"
	}
	return "Its last lines: " + strings.Join(short, ", ")
}

func capital(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}
