//go:build clients

package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

// agent is a coding agent.
type agent struct {
	name   string
	source string // where the key of its conversations comes from
	// run begins a conversation at an address.
	run func(t *testing.T, url string, at place, prompt string) *exec.Cmd
}

var agents = []agent{
	{"Claude Code", "cc-header", func(t *testing.T, url string, at place, prompt string) *exec.Cmd {
		return claude(t, url, at, "-p", prompt)
	}},
	{"Codex", "codex-thread", func(t *testing.T, url string, at place, prompt string) *exec.Cmd {
		return codex(t, url, at, "exec", "--skip-git-repo-check", prompt)
	}},
	{"OpenCode", "x-session-affinity", func(t *testing.T, url string, at place, prompt string) *exec.Cmd {
		return opencode(t, url, at, "run", prompt)
	}},
	{"Qwen Code", "chain", func(t *testing.T, url string, at place, prompt string) *exec.Cmd {
		return qwen(t, url, at, "-p", prompt)
	}},
}

// prompted says whether a request is a turn on a prompt, and nothing beside it: an agent
// asks for titles with fewer tools or with none.
func prompted(q *question) bool { return q.has("THE-PROMPT") && len(q.body.Tools) > 0 }

// troubled plays an engine that answers a turn well only after some bad answers.
func troubled(bad ...reply) script {
	var n atomic.Int64
	return func(q *question) reply {
		if !prompted(q) {
			return reply{Text: "Beside it."}
		}
		i := n.Add(1) - 1
		if i >= int64(len(bad)) {
			return reply{Text: "All is done ✓."}
		}
		said := bad[i]
		if said.Status != 0 {
			said.Fault = faultFor(q.path)
		}
		return said
	}
}

// faultFor is an engine's error in the form of its path.
func faultFor(path string) string {
	if strings.HasPrefix(path, "/v1/messages") {
		return `{"type":"error","error":{"type":"api_error","message":"The engine does not like it."}}`
	}
	return `{"error":{"message":"The engine does not like it.","type":"BadRequestError","param":null,"code":400}}`
}

// trial is one run of an agent, seen from outside.
type trial struct {
	Outcome  outcome
	Attempts []string // status of each try of the turn, and whether its answer was whole
	Quoted   bool     // whether what was printed has the engine's own words
}

// try runs an agent at a tap.
func (a agent) try(t *testing.T, p *tap) trial {
	t.Helper()
	end := run(t, a.run(t, p.URL, newPlace(t), "THE-PROMPT"))
	got := trial{Outcome: end, Quoted: strings.Contains(end.Stdout+end.stderr, "The engine does not like it.")}
	if got.Quoted { // how it is dressed up differs with the time that it took
		got.Outcome.Stdout = ""
	}
	for _, s := range p.take(t) {
		q := &question{path: s.uri}
		if json.Unmarshal(s.body, &q.body) != nil || !prompted(q) {
			continue
		}
		state := strconv.Itoa(s.status)
		if s.err != nil {
			state += " cut"
		}
		got.Attempts = append(got.Attempts, state)
	}
	return got
}

// TestAgentsSeeFaultsAsFromTheEngine lets an engine be busy, fail, be overloaded and cut
// a stream before it answers, and lets it refuse. Each agent runs at such an engine and,
// beside it, through the daemon: it tries as often, gets the same answers, and ends and
// prints the same.
func TestAgentsSeeFaultsAsFromTheEngine(t *testing.T) {
	refused := reply{Status: http.StatusBadRequest}
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			b, alone := newBox(t), newEngines(t, 1)
			direct := newTap(t, alone.urls[0])
			for _, trouble := range [][]reply{
				{{Status: http.StatusTooManyRequests, wait: "1"}, {Status: http.StatusInternalServerError}, {Status: 529, wait: "1"}, {Text: "Half an answer", stall: cutInStream}},
				slices.Repeat([]reply{refused}, 100),
			} {
				alone.play(troubled(trouble...))
				b.play(troubled(trouble...))
				var want, got trial
				var both sync.WaitGroup
				both.Go(func() { want = a.try(t, direct) })
				both.Go(func() { got = a.try(t, b.tap) })
				both.Wait()
				if d := cmp.Diff(want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".stderr" }, cmp.Ignore())); d != "" {
					t.Errorf("%s does otherwise through the daemon (-engine +daemon):\n%s\nat the engine: %s\nthrough the daemon: %s",
						a.name, d, want.Outcome.stderr, got.Outcome.stderr)
				}
				t.Logf("%s tries %q and ends with %d: %q, engine quoted: %v", a.name, got.Attempts, got.Outcome.Code, got.Outcome.Stdout, got.Quoted)
			}
		})
	}
}

// TestAgentsComeBack runs each agent while every replica is drained and nothing waits for
// long: the daemon refuses with its own error and says when to come back, the agent does,
// and its conversation is placed.
func TestAgentsComeBack(t *testing.T) {
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			b := newBoxThatHolds(t, time.Second)
			b.play(troubled())
			b.drained(t, true)
			var refused atomic.Int64
			b.tap.onAnswer(func(s *seen) {
				if s.status != http.StatusServiceUnavailable || refused.Add(1) != 1 {
					return
				}
				if wait, err := strconv.Atoi(s.gotHeader.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
					t.Errorf("the daemon refuses with Retry-After %q, want whole seconds up to 60", s.gotHeader.Get("Retry-After"))
				}
				b.drained(t, false)
			})
			end := run(t, a.run(t, b.tap.URL, newPlace(t), "THE-PROMPT"))
			if !strings.Contains(end.Stdout, "All is done ✓.") {
				t.Errorf("%s printed %q, %s", a.name, end.Stdout, end.stderr)
			}
			if refused.Load() == 0 {
				t.Error("the daemon refused nothing")
			}
		})
	}
}

// TestAgentsWaitForAReplica runs each agent while every replica is drained, until its
// request waits for one: then they are back, and the agent has noticed nothing.
func TestAgentsWaitForAReplica(t *testing.T) {
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			b := newBox(t)
			b.play(troubled())
			b.drained(t, true)
			cmd := a.run(t, b.tap.URL, newPlace(t), "THE-PROMPT")
			ended := make(chan outcome, 1)
			go func() { ended <- run(t, cmd) }()
			harness.Within(t, time.Minute, func() error {
				answer, err := b.Routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: model})
				if err == nil && answer.GetCard().GetHeld() == 0 {
					err = errors.New("no request waits")
				}
				return err
			})
			b.drained(t, false)
			if end := <-ended; !strings.Contains(end.Stdout, "All is done ✓.") {
				t.Errorf("%s printed %q, %s", a.name, end.Stdout, end.stderr)
			}
		})
	}
}

// drained drains or resumes all replicas.
func (b *box) drained(t *testing.T, drain bool) {
	t.Helper()
	for i := range b.urls {
		var err error
		if drain {
			_, err = b.Replicas.DrainReplica(t.Context(), &lmwardenv1.DrainReplicaRequest{Model: model, Index: uint32(i)})
		} else {
			_, err = b.Replicas.ResumeReplica(t.Context(), &lmwardenv1.ResumeReplicaRequest{Model: model, Index: uint32(i)})
		}
		if err != nil {
			t.Errorf("replica %d: %v", i, err)
		}
	}
}

// TestAgentsLeave interrupts each agent while its answer is in the middle: the engine
// knows at once, the history says that the client left, and nothing is in flight.
func TestAgentsLeave(t *testing.T) {
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			b := newBox(t)
			b.play(troubled(slices.Repeat([]reply{{Text: "Half an answer", stall: stallInStream}}, 100)...))
			cmd := a.run(t, b.tap.URL, newPlace(t), "THE-PROMPT")
			ended := make(chan outcome, 1)
			go func() { ended <- run(t, cmd) }()
			var left *traffic
			select {
			case left = <-b.stalled:
			case end := <-ended:
				t.Fatalf("it ended before its answer did: %s\n%s", end.Stdout, end.stderr)
			}
			// As Ctrl-C does, and again when it has missed that, as a person would.
			again, late := time.NewTicker(10*time.Second), time.After(60*time.Second)
			defer again.Stop()
			for interrupted := false; !interrupted; {
				if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Fatal(err)
				}
				select {
				case <-left.aborted:
					interrupted = true
				case <-again.C:
					t.Logf("%s goes on after an interrupt", a.name)
				case <-late:
					t.Errorf("%s was interrupted, but its request still runs in the engine", a.name)
					_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
					interrupted = true
				}
			}
			<-ended
			b.quiet(t, a.source)
		})
	}
}

// quiet waits until nothing is in flight, and checks that the model's one conversation
// from a source was left by its client.
func (b *box) quiet(t *testing.T, source string) {
	t.Helper()
	harness.Within(t, time.Minute, func() error {
		if err := b.Idle(t.Context(), model); err != nil {
			return err
		}
		history, err := b.Stats.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{Model: model, PageSize: 1000})
		if err != nil {
			return err
		}
		for _, r := range history.GetRequests() {
			if r.GetStatus() == 499 && r.GetKeySource() == source && r.GetDecision() == lmwardenv1.DecisionClass_DECISION_CLASS_PLACED {
				return nil
			}
		}
		return fmt.Errorf("the history has no turn with its key from %s that was left: %v", source, history.GetRequests())
	})
}
