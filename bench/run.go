package bench

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

// StepOptions says what one step does.
type StepOptions struct {
	// Client sends the turns.
	Client *Client
	// Load is what the clients do. Of its own number of sessions nothing is taken.
	Load Load
	// Trace, when set, is played instead of the load's conversations, once. Sessions is
	// then the number of its conversations.
	Trace *load.Trace
	// Arm names what is measured: "on", "off". It goes into the result.
	Arm string
	// Sessions is the number of conversations at the same time, at least 1.
	Sessions int
	// Warmup comes before the step: conversations go on from it into the step, but of what
	// comes within it only failures are counted. A first token counts when it came after
	// it, an answer when it ended after it, the time of a conversation when that also began
	// after it.
	Warmup time.Duration
	// Duration is the length of the step without its warm-up; turns still running at its
	// end are cut. A trace that ends earlier ends the step.
	Duration time.Duration
	// Seed and Salt fix the texts, see [NewScript].
	Seed uint64
	// Salt changes the texts and not the sizes.
	Salt string
	// OnTurn, if set, hears of each turn that ended, failed or was cut, of those of the
	// warm-up too; it is called by one goroutine at a time and must not block.
	OnTurn func(Turn)
	// Busy, if set, returns how many replicas run requests now, and false when that
	// is not known. It is asked once a second.
	Busy func(context.Context) (int, bool)
}

// Turn is one turn as a slot saw it.
type Turn struct {
	// Slot that sent it, from 0.
	Slot int
	// Conversation is the number of the slot's conversation, from 0.
	Conversation int
	// Number of the turn within the conversation, from 1.
	Number int
	// Began is when the first turn of the conversation was sent, Sent when this one was.
	Began, Sent time.Time
	// Answer as measured; of a failed turn the part that came.
	Answer Answer
	// Err is why the turn failed, or nil.
	Err error
	// Cut is true when the step ended before the answer did.
	Cut bool
	// Before is the replica of the turn before, or -1 when there is none or its answer did
	// not say.
	Before int
	// Last is true for the turn that completed its conversation.
	Last bool
	// SessionTime is the whole time of the conversation; only with Last.
	SessionTime time.Duration
}

// Stayed tells whether the turn went to the replica of the turn before; known is false
// when one of both answers did not say where it came from, and for first turns.
func (t *Turn) Stayed() (stayed, known bool) {
	known = t.Number > 1 && t.Before >= 0 && t.Answer.Replica >= 0
	return known && t.Before == t.Answer.Replica, known
}

// ended is when its answer did.
func (t *Turn) ended() time.Time { return t.Sent.Add(t.Answer.Duration) }

// failurePause is how long a slot waits after a failure, so that a dead endpoint is
// not asked a thousand times a second.
const failurePause = time.Second

// Run keeps Sessions slots busy for Duration and returns what they measured. When
// ctx ends first the step so far is returned, marked as partial. A trace that ends within
// the warm-up is an error.
func Run(ctx context.Context, opts StepOptions) (Step, error) {
	if err := opts.Load.Validate(); err != nil {
		return Step{}, err
	}
	if opts.Trace != nil {
		opts.Sessions = opts.Trace.Conversations()
	}
	if opts.Sessions < 1 {
		return Step{}, fmt.Errorf("a step needs at least 1 session, not %d", opts.Sessions)
	}
	if opts.Duration <= 0 {
		return Step{}, fmt.Errorf("a step needs a duration above 0, not %s", opts.Duration)
	}
	if opts.Warmup < 0 {
		return Step{}, fmt.Errorf("a warm-up of %s is not possible; 0 is none", opts.Warmup)
	}
	start := time.Now()
	step, cancel := context.WithTimeout(ctx, opts.Warmup+opts.Duration)
	defer cancel()

	turns := make(chan Turn)
	var slots sync.WaitGroup
	for slot := range opts.Sessions {
		slots.Go(func() { runSlot(step, opts, slot, start, turns) })
	}
	var busy busyMeter
	var poller sync.WaitGroup
	if opts.Busy != nil {
		poller.Go(func() {
			if pause(step, opts.Warmup) {
				busy.run(step, opts.Busy)
			}
		})
	}
	go func() {
		slots.Wait()
		close(turns)
	}()

	tally := newTally(opts.Sessions, start.Add(opts.Warmup))
	for turn := range turns {
		tally.add(turn)
		if opts.OnTurn != nil {
			opts.OnTurn(turn)
		}
	}
	took := time.Since(start)
	partial := ctx.Err() != nil
	cancel() // the slots of a trace end before the step does
	poller.Wait()
	result := tally.step(min(max(took-opts.Warmup, 0), opts.Duration), opts.Client.reports.Load())
	result.Arm, result.Sessions = opts.Arm, opts.Sessions
	result.ReplicasBusy = busy.mean()
	result.Partial = partial
	if opts.Trace != nil && !partial && opts.Warmup > 0 && took <= opts.Warmup {
		return Step{}, shortTrace(took, opts.Warmup, result.FirstError)
	}
	return result, nil
}

// shortTrace says that a trace left nothing to measure. Conversations that failed end early,
// so the first failure is told too.
func shortTrace(took, warmup time.Duration, failure string) error {
	err := fmt.Errorf("the trace ended after %s, within the warm-up of %s; nothing was measured", took.Round(100*time.Millisecond), warmup)
	if failure != "" {
		err = fmt.Errorf("%w; the first failure: %s", err, failure)
	}
	return err
}

// runSlot holds one conversation after the other until the step ends, or the one of
// the trace.
func runSlot(ctx context.Context, opts StepOptions, slot int, start time.Time, turns chan<- Turn) {
	if opts.Trace != nil {
		script := newScript(opts.Trace.Begin(slot), opts.Load.BytesPerToken, opts.Seed, opts.Salt)
		_ = talk(ctx, opts, script, "", start, Turn{Slot: slot}, turns) // told as a turn
		return
	}
	for number := 0; ctx.Err() == nil; number++ {
		script := NewScript(opts.Load, opts.Seed, opts.Salt, slot, number)
		if err := talk(ctx, opts, script, "", start, Turn{Slot: slot, Conversation: number}, turns); err != nil {
			pause(ctx, failurePause)
		}
	}
}

// begin is when a slot's conversation begins, as time since the step's begin: the first one
// when the load says, others at ready; of a load in bursts, with the next one.
func (o StepOptions) begin(turn Turn, ready time.Duration) time.Duration {
	if turn.Conversation == 0 {
		ready = o.Load.Start(o.Seed, turn.Slot)
	}
	if every := o.Load.StartEvery; every > 0 {
		ready = (ready + every - 1) / every * every
	}
	return ready
}

// talk holds one conversation; session is the id of the one that began it as its
// subagent. It gives up at the first failed turn, since the next one would send a
// history that the endpoint never answered. The pause after the last answer is its
// own, as that of all others.
func talk(ctx context.Context, opts StepOptions, script *Script, session string, start time.Time, turn Turn, turns chan<- Turn) error {
	began := time.Now()
	ask := Ask{Conversation: script.ID, System: script.System}
	if session != "" {
		ask.Conversation, ask.Agent = session, script.ID
	}
	home := -1
	for {
		said, ok := script.Next()
		if !ok {
			return nil
		}
		due := said.At
		switch {
		case said.Number > 1:
			due = max(due, time.Since(start)+said.Think)
		case session == "" && opts.Trace == nil:
			due = opts.begin(turn, time.Since(start)+said.Think)
		}
		if !pause(ctx, time.Until(start.Add(due))) {
			return ctx.Err()
		}
		sent := time.Now()
		if said.Number == 1 {
			began = sent
		}
		if said.Rewritten {
			ask.History = nil
		}
		ask.History = append(ask.History, Message{Role: "user", Text: said.Text})
		ask.MaxTokens = said.Output
		answer, err := opts.Client.Send(ctx, ask)
		turn.Number, turn.Answer, turn.Err = said.Number, answer, err
		turn.Began, turn.Sent = began, sent
		turn.Cut = err != nil && ctx.Err() != nil
		turn.Before = home
		turn.Last = err == nil && said.Last && session == ""
		if turn.Last {
			turn.SessionTime = time.Since(began)
		}
		turns <- turn
		if err != nil {
			return err
		}
		home = answer.Replica
		ask.History = append(ask.History, Message{Role: "assistant", Text: answer.Text})
		runAgents(ctx, opts, said.Agents, script.ID, start, turn.Slot, turns)
	}
}

// runAgents holds the conversations of subagents and returns when all have ended. One
// that failed has ended too.
func runAgents(ctx context.Context, opts StepOptions, scripts []*Script, session string, start time.Time, slot int, turns chan<- Turn) {
	var agents sync.WaitGroup
	for _, script := range scripts {
		agents.Go(func() {
			_ = talk(ctx, opts, script, session, start, Turn{Slot: slot}, turns) // told as a turn
		})
	}
	agents.Wait()
}

// pause waits, and returns false when the step ended meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// busyMeter averages the number of busy replicas over a step.
type busyMeter struct {
	sum, polls int
}

// run polls once a second until the step ends. Its fields are read after it returned.
func (b *busyMeter) run(ctx context.Context, busy func(context.Context) (int, bool)) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if n, ok := busy(ctx); ok {
				b.sum += n
				b.polls++
			}
		}
	}
}

// mean returns the average, or nil without a poll.
func (b *busyMeter) mean() *float64 {
	if b.polls == 0 {
		return nil
	}
	mean := math.Round(100*float64(b.sum)/float64(b.polls)) / 100
	return &mean
}
