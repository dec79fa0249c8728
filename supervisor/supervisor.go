package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// Supervisor owns the engine processes of the box. Its methods are safe for
// concurrent use.
type Supervisor struct {
	opts   Options
	client *http.Client
	ports  *ports
	cards  *cards
	run    *runDir
	count  metrics

	// hurry ends when nobody waits for a graceful stop any more.
	hurry    context.Context //nolint:containedctx // its life is the supervisor's, not a call's
	hurryNow context.CancelFunc

	mu       sync.Mutex // guards what follows
	replicas map[ReplicaID]*replica
	books    map[ReplicaID]*logbook // logs, kept when the replica is gone
	closed   bool
	left     chan struct{} // closed, and replaced, when a replica has left
}

// New returns a supervisor that runs nothing yet.
//
// It first ends what an earlier supervisor over the same data directory has left
// behind, which it finds by the run files and by the token in each process's
// environment: a killed daemon leaves its engines running, with cards and ports in
// their hands. It makes this process the reaper of orphans (prctl(2)
// PR_SET_CHILD_SUBREAPER), so that a process whose engine died before it comes to us.
func New(opts Options) (*Supervisor, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("the kernel does not let this process adopt orphans of its engines (prctl PR_SET_CHILD_SUBREAPER): %w", err)
	}
	run, err := openRunDir(filepath.Join(opts.DataDir, "run"))
	if err != nil {
		return nil, err
	}
	if err := run.endLeftovers(opts); err != nil {
		return nil, err
	}
	s := &Supervisor{
		opts:     opts,
		client:   newProbeClient(),
		ports:    newPorts(opts.PortBase),
		cards:    newCards(),
		run:      run,
		count:    newMetrics(opts.Registerer),
		replicas: map[ReplicaID]*replica{},
		books:    map[ReplicaID]*logbook{},
		left:     make(chan struct{}),
	}
	s.hurry, s.hurryNow = context.WithCancel(context.Background())
	return s, nil
}

// EndLeftovers ends the engines that a supervisor over dataDir has left running, for a
// data directory that nobody will use again. That supervisor must be gone. The error
// names those that run on, and run files that cannot be read.
func EndLeftovers(dataDir string, logger zerolog.Logger) error {
	run, err := openRunDir(filepath.Join(dataDir, "run"))
	if err != nil {
		return err
	}
	return run.endLeftovers(Options{Logger: logger, Timing: Timing{}.withDefaults()})
}

// Apply makes the replicas be what specs say, and returns before they are: replicas
// that are not among them are stopped, new ones started, and those whose spec has
// changed are stopped and started again. A replica whose spec is the same is left
// alone, in whatever state it is. Of two specs with one id the first one counts. After
// [Supervisor.Stop] it does nothing.
func (s *Supervisor) Apply(specs []Spec) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	seen := make(map[ReplicaID]bool, len(specs))
	for _, spec := range specs {
		if seen[spec.ID] {
			s.opts.Logger.Error().Str("model", spec.ID.Model).Int("replica", spec.ID.Index).
				Msg("two specs name the same replica, the second one is not used")
			continue
		}
		seen[spec.ID] = true
		if r := s.replicas[spec.ID]; r == nil || !r.assign(spec) {
			s.replicas[spec.ID] = startReplica(s, spec, s.bookLocked(spec.ID))
		}
	}
	for id, r := range s.replicas {
		if !seen[id] {
			r.remove()
		}
	}
}

// Restart ends the replica's engine gracefully and starts it again, with a new budget
// of failures. It returns before that is done. The error is for a replica that the
// last Apply did not name.
func (s *Supervisor) Restart(id ReplicaID) error {
	s.mu.Lock()
	r := s.replicas[id]
	s.mu.Unlock()
	if r == nil || !r.restart() {
		return fmt.Errorf("there is no replica %d of model %s to restart; start the model first", id.Index, id.Model)
	}
	return nil
}

// Status returns the status of every replica, by model and index. A replica that is
// being stopped is among them until its last process is gone.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	rs := slices.Collect(maps.Values(s.replicas))
	s.mu.Unlock()
	all := make([]Status, len(rs))
	for i, r := range rs {
		all[i] = r.current()
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(strings.Compare(a.ID.Model, b.ID.Model), cmp.Compare(a.ID.Index, b.ID.Index))
	})
	return all
}

// StatusOf returns the status of one replica; false when there is none.
func (s *Supervisor) StatusOf(id ReplicaID) (Status, bool) {
	s.mu.Lock()
	r := s.replicas[id]
	s.mu.Unlock()
	if r == nil {
		return Status{}, false
	}
	return r.current(), true
}

// WaitStopped returns when the model has no replica any more, or with an error when
// ctx ends before. It stops nothing by itself.
func (s *Supervisor) WaitStopped(ctx context.Context, model string) error {
	return s.wait(ctx, func(id ReplicaID) bool { return id.Model == model })
}

// Stop ends all engines at the same time and returns when no process of them is left.
// When ctx ends first the rest is killed at once, and the error names what did not end
// even so. The supervisor cannot be used afterwards.
func (s *Supervisor) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for _, r := range s.replicas {
		r.remove()
	}
	s.mu.Unlock()
	all := func(ReplicaID) bool { return true }
	err := s.wait(ctx, all)
	if err != nil {
		s.hurryNow()
		rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*s.opts.Timing.KillGrace)
		defer cancel()
		if err = s.wait(rest, all); err != nil {
			return err
		}
	}
	s.hurryNow()
	s.client.CloseIdleConnections()
	return nil
}

// wait returns when no replica is left that matters.
func (s *Supervisor) wait(ctx context.Context, matters func(ReplicaID) bool) error {
	for {
		s.mu.Lock()
		left, names := s.left, []string(nil)
		for id := range s.replicas {
			if matters(id) {
				names = append(names, fmt.Sprintf("%s/%d", id.Model, id.Index))
			}
		}
		s.mu.Unlock()
		if len(names) == 0 {
			return nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			slices.Sort(names)
			return fmt.Errorf("these replicas have not stopped: %s: %w", strings.Join(names, ", "), context.Cause(ctx))
		}
	}
}

// forget is the last call of a replica's goroutine.
func (s *Supervisor) forget(r *replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// A successor may already stand in its place.
	if s.replicas[r.id] == r {
		delete(s.replicas, r.id)
	}
	close(s.left)
	s.left = make(chan struct{})
}

// bookLocked returns the logbook of a replica. s.mu must be held.
func (s *Supervisor) bookLocked(id ReplicaID) *logbook {
	b := s.books[id]
	if b == nil {
		b = s.newBook(id)
		s.books[id] = b
	}
	return b
}

func (s *Supervisor) newBook(id ReplicaID) *logbook {
	return newLogbook(filepath.Join(s.opts.DataDir, "logs", dirName(id.Model), fmt.Sprint(id.Index)))
}

// LogQuery says which lines of a log are wanted.
type LogQuery struct {
	// Tail is how many lines before the present end; 0 means none.
	Tail int
	// Follow goes on with new lines until ctx ends, or, when Incarnation is given,
	// until that life is over.
	Follow bool
	// Incarnation is the life whose log is wanted; 0 means the present or last one,
	// and with Follow those that come after it.
	Incarnation uint64
}

// ErrNoLog is wrapped by the error of a log that does not exist.
var ErrNoLog = errors.New("there is no such log")

// Logs calls yield with batches of lines, oldest first, and returns when there are no
// more, with yield's error when it returns one, or nil when ctx ends a Follow. The log
// of a replica that was stopped is still there. Secrets are taken out.
func (s *Supervisor) Logs(ctx context.Context, id ReplicaID, q LogQuery, yield func([]LogLine) error) error {
	s.mu.Lock()
	_, runs := s.replicas[id]
	b := s.books[id]
	if b == nil { // kept only when there is a log: anybody may ask for any number
		b = s.newBook(id)
		if runs || b.exists() {
			s.books[id] = b
		}
	}
	s.mu.Unlock()
	if !runs && !b.exists() {
		return fmt.Errorf("model %s replica %d has never run here: %w", id.Model, id.Index, ErrNoLog)
	}
	return b.read(ctx, q, yield)
}
