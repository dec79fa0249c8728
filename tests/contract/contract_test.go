package contract

import (
	"syscall"
	"testing"
	"time"
)

// TestEngine holds one engine to the table, from its first request to its end on
// SIGTERM. It runs beside TestEndings: a real engine takes minutes to start.
func TestEngine(t *testing.T) {
	t.Parallel()
	e := start(t, subject(t))
	e.waitReady(t)
	for _, x := range table() {
		t.Run(x.name, func(t *testing.T) { x.hold(t, e.url) })
	}
	for _, c := range []struct {
		name string
		run  func(*testing.T, *engine)
	}{
		{"metrics", metricsHold},
		{"metrics of the simulated engine", metricsAgree},
		{"metrics count what usage says", metricsCount},
		{"usage that the proxy asks for leaves no trace", hiddenUsage},
		{"a stop ends an answer", stops},
		{"tokens turn back into their text", roundTrip},
		{"an idle connection is closed after 5 s", keepAlive},
		{"a client that goes away ends its stream", abortStream},
		{"a client that goes away ends its request", abortWhole},
		{"a full engine", fullEngine},
		{"the cache, one request at a time", replayOne},
		{"the cache, four requests at a time", replayFour},
		{"SIGTERM when idle", termIdle},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			c.run(t, e)
			t.Logf("%.1f s", time.Since(begun).Seconds())
		})
	}
}

// TestEndings takes one engine for each way to die.
func TestEndings(t *testing.T) {
	t.Parallel()
	t.Run("SIGTERM under a stream", func(t *testing.T) {
		e := start(t, subject(t))
		e.waitReady(t)
		termUnderStream(t, e)
	})
	// The two start together, which takes no longer than one on two processors.
	server, core := start(t, subject(t)), start(t, subject(t))
	t.Run("the API server is killed", func(t *testing.T) {
		server.waitReady(t)
		killServer(t, server)
	})
	t.Run("the engine core is killed", func(t *testing.T) {
		core.waitReady(t)
		killInner(t, core, core.core())
	})
	t.Run("a worker is killed", func(t *testing.T) {
		e := startWith(t, subject(t), workerFlags...)
		e.waitReady(t)
		killInner(t, e, e.member("VLLM::Worker"))
	})
}

// termIdle: an engine without requests ends at once and leaves nothing.
func termIdle(t *testing.T, e *engine) {
	if e.core() == 0 {
		t.Fatalf("no engine core among %v", e.group())
	}
	e.signal(t, syscall.SIGTERM)
	if code := e.exitCode(t, soon); code != 0 {
		t.Errorf("the exit code is %d, want 0", code)
	}
	e.waitEmpty(t, soon)
}
