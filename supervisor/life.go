package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// life is one run of an engine, from its start to the end of its last process. It is
// owned by the replica's goroutine.
type life struct {
	record  record
	command []string // as it is shown, without secrets
	key     string   // that the engine asks for; empty for one that somebody else runs
	url     string
	lease   lease
	family  *family // nil for an engine that somebody else runs
	pump    *pump   // nil for an engine that somebody else runs
	pipe    *os.File
	exited  chan struct{} // closed when the root has ended; nil when there is none
	state   *os.ProcessState

	began    time.Time
	readyAt  time.Time // zero until it has answered a request
	sickAt   time.Time // since when it refuses health probes; zero when it does not
	wedgedAt time.Time // since when it hangs; zero when it does not
	stalled  bool      // its start was reported as standing still
	looks    int       // at its log and its processes
}

// startError is a start that did not come to a process.
type startError struct {
	kind vllm.Kind
	err  error
}

func (e *startError) Error() string { return e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

// begin starts the engine of a spec. Whatever it took is given back when it fails.
func (r *replica) begin(spec Spec) (l *life, err error) {
	rec, err := r.sup.run.next(r.id)
	if err != nil {
		return nil, &startError{vllm.Unknown, err}
	}
	l = &life{record: rec, began: time.Now()}
	if spec.Remote != "" {
		l.url = spec.Remote
		return l, nil
	}
	path, err := exec.LookPath(r.sup.opts.Command[0])
	if err != nil {
		return nil, &startError{vllm.Configuration, fmt.Errorf("the engine command %q cannot be run: %w; install vLLM or set the engine command to its path", r.sup.opts.Command[0], err)}
	}
	if l.lease, err = r.sup.ports.take(r.id, r.avoid); err != nil {
		return nil, &startError{vllm.Transient, err}
	}
	l.url = "http://127.0.0.1:" + strconv.Itoa(l.lease.port)
	l.record.Port = l.lease.port
	if err := r.book.begin(rec.Incarnation); err != nil {
		r.log.Warn().Err(err).Msg("the engine runs without a log file until one can be written")
	}
	if err = r.spawn(l, path, spec); err != nil {
		err = errors.Join(err, r.book.end(), r.sup.run.ended(r.id, rec))
		r.sup.ports.give(r.id)
		return nil, &startError{vllm.Transient, err}
	}
	return l, nil
}

// spawn starts the process in a session of its own, so that no signal of our terminal
// reaches it and its children can be told by their session.
func (r *replica) spawn(l *life, path string, spec Spec) error {
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("the engine cannot be started: %w", err)
	}
	args := slices.Concat(r.sup.opts.Command[1:], spec.Args,
		[]string{"--host", "127.0.0.1", "--port", strconv.Itoa(l.lease.port)})
	l.key = rand.Text()
	env := environment(r.sup.opts.PassEnv, spec, l.lease, l.record.token(), l.key)
	redact := newRedactor(env)
	cmd := exec.Command(path, args...) //nolint:noctx // an engine outlives every call; its life ends in end
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	l.command = redact.command(append([]string{path}, args...))
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return fmt.Errorf("the engine cannot be started: %w", err)
	}
	r.sup.count.starts.WithLabelValues(r.id.Model).Inc()
	l.record.PID = cmd.Process.Pid
	// It cannot have been reaped yet, so that its entry is there even if it has ended.
	if p, err := readProcess(cmd.Process.Pid); err == nil {
		l.record.Start = p.start
	}
	l.family = newFamily(l.record.PID, l.record.Start, l.record.Token)
	l.family.ours = true
	l.pipe, l.pump, l.exited = read, newPump(r.book, redact, l.began), make(chan struct{})
	go l.pump.run(read)
	go func() {
		// The state says all; an error here is a bad exit.
		_ = cmd.Wait()
		l.state = cmd.ProcessState
		close(l.exited)
	}()
	// The token alone finds the processes, so a record without pid is good enough.
	if err := r.sup.run.write(r.id, l.record); err != nil {
		r.log.Warn().Err(err).Msg("the run file has no process id")
	}
	return nil
}

// token is the value of the variable that marks the life's processes.
func (rec record) token() string { return rec.Token[len(tokenVar)+1:] }

// finish ends every process of the life and gives back what it held. It returns when
// none is left, however long that takes: starting another engine beside one that still
// holds the card would make things worse. What a dead engine has left behind has
// nothing to end in good order, and gets little time for it.
func (r *replica) finish(l *life, asked bool) {
	term := r.sup.opts.Timing.TermGrace
	if !asked {
		term = min(term, time.Second)
	}
	if l.family != nil {
		for {
			err := l.family.end(r.sup.hurry, term, r.sup.opts.Timing.KillGrace)
			if err == nil {
				break
			}
			r.update(func(s *Status) { s.Message = capital(err.Error()) + ". It is tried again until they are gone." })
			r.log.Error().Err(err).Msg("an engine does not end")
			time.Sleep(time.Second) // whatever the error is, it must not make us spin
		}
		<-l.exited
		// Nobody holds the other end any more; a stranger who inherited it must not
		// keep us.
		_ = l.pipe.SetReadDeadline(time.Now().Add(time.Second))
		<-l.pump.done
		if err := r.book.end(); err != nil {
			r.log.Warn().Err(err).Msg("the engine's log is not complete")
		}
		r.sup.ports.give(r.id)
	}
	if err := r.sup.run.ended(r.id, l.record); err != nil {
		r.log.Warn().Err(err).Msg("the run file still names the engine that has ended")
	}
}

// drain takes the replica out of rotation. An engine that has ended by itself has
// nothing to drain: what hangs on it is cut at once.
func (r *replica) drain(asked bool) {
	if r.sup.opts.Hooks.BeforeStop == nil {
		return
	}
	ctx, end := context.WithCancelCause(r.sup.hurry)
	defer end(nil)
	if !asked {
		end(ErrEngineEnded)
	}
	ctx, cancel := context.WithTimeout(ctx, r.sup.opts.DrainTimeout)
	defer cancel()
	r.sup.opts.Hooks.BeforeStop(ctx, r.id)
}

// exit describes how the root ended: its code, or 128 plus the signal, and a sentence.
func exit(state *os.ProcessState) (code int, what string) {
	status, ok := state.Sys().(syscall.WaitStatus)
	if ok && status.Signaled() {
		what = fmt.Sprintf("The engine was ended by signal %d (%s)", status.Signal(), status.Signal())
		if status.Signal() == syscall.SIGKILL {
			what += ", by hand or because the host ran out of memory"
		}
		return 128 + int(status.Signal()), what
	}
	return state.ExitCode(), fmt.Sprintf("The engine exited with code %d", state.ExitCode())
}
