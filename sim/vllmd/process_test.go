package vllmd

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const ready = "Application startup complete."

// TestStartRefuses looks at a start that takes longer than any test.
func TestStartRefuses(t *testing.T) {
	t.Parallel()
	p := launch(t, "LMWARDEN_SIM_START=1h")
	p.expect("non-default args")
	if _, err := http.Get(p.url + "/health"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("before it is ready, /health gave %v; want a refused connection", err)
	}
}

// TestLife follows one process from its start to SIGTERM.
func TestLife(t *testing.T) {
	t.Parallel()
	p := launch(t, "LMWARDEN_SIM_START=1s")
	p.expect(ready)
	if res, _ := send(t, http.MethodGet, p.url+"/health", ""); res.StatusCode != http.StatusOK {
		t.Errorf("/health is %d", res.StatusCode)
	}
	last := 0
	for _, mark := range []string{
		"Resolved architecture:", "Using max model len 8192", "Initializing a V1 LLM engine (v0.32.0)", "Starting to load model",
		"Loading safetensors checkpoint shards:", "Loading weights took", "Model loading took", "GPU KV cache size: 46,048 tokens, Maximum concurrency for 8,192 tokens per request: 5.62x",
		"init engine (profile", "Starting vLLM server on http://127.0.0.1:", "Available routes are:", "Started server process", ready,
	} {
		at := strings.Index(p.log(), mark)
		if at < last {
			t.Errorf("%q is at %d of the log, before what should precede it", mark, at)
		}
		last = at
	}
	core := p.enginePID()
	if got := title(core); got != "VLLM::EngineCore" {
		t.Errorf("the engine's process is titled %q", got)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("SIGTERM ended it with %d, want 0", code)
	}
	if got := title(core); got != "" {
		t.Errorf("%s is still there", got)
	}
}

// TestTermUnderStream checks that without a budget SIGTERM kills the engine at once and
// the process then waits for its open connection, which gets neither data nor an end.
func TestTermUnderStream(t *testing.T) {
	t.Parallel()
	p := launch(t, "")
	p.expect(ready)
	ctx, cancel := context.WithCancel(t.Context())
	r := p.stream(ctx, 8000)
	core := p.enginePID()
	p.signal(syscall.SIGTERM)
	p.expect("INFO:     Shutting down")
	if got := title(core); got != "" {
		t.Errorf("%s is still there", got)
	}
	silent := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, r)
		silent <- err
	}()
	select {
	case err := <-silent:
		t.Errorf("the stream ended with %v; it should hang", err)
	case <-p.done:
		t.Error("the process ended under its open stream; it should hang")
	case <-time.After(500 * time.Millisecond):
	}
	cancel()
	if code := p.exit(); code != 0 {
		t.Errorf("it ended with %d after its client had gone, want 0", code)
	}
}

// TestDrain checks that with a budget a stream ends well, while new requests fail and
// /health stays 200.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := launch(t, "", "--shutdown-timeout=600")
	p.expect(ready)
	// One stream keeps it draining for as long as the checks take, on any machine.
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	p.stream(ctx, 8000)
	r := p.stream(t.Context(), 100)
	p.signal(syscall.SIGTERM)
	p.expect("mode=drain timeout=600s")
	if res, _ := send(t, http.MethodGet, p.url+"/health", ""); res.StatusCode != http.StatusOK {
		t.Errorf("/health is %d while it drains", res.StatusCode)
	}
	if res, body := send(t, http.MethodPost, p.url+"/v1/completions", `{"model":"tiny","prompt":"hi"}`); res.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "cannot schedule new futures after shutdown") {
		t.Errorf("a new request gave %d %s", res.StatusCode, body)
	}
	rest, err := io.ReadAll(r)
	if err != nil || !strings.HasSuffix(string(rest), "data: [DONE]\n\n") {
		t.Errorf("the stream ended with %v and %q", err, rest[max(0, len(rest)-80):])
	}
	select {
	case <-p.done:
		t.Error("it ended under a stream that it had time for")
	default:
	}
	leave()
	if code := p.exit(); code != 0 {
		t.Errorf("it ended with %d, want 0", code)
	}
}

// TestGroupTerm checks that SIGTERM to the whole group is no death of the engine.
func TestGroupTerm(t *testing.T) {
	t.Parallel()
	p := launch(t, "")
	p.expect(ready)
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := p.exit(); code != 0 || strings.Contains(p.log(), "died unexpectedly") {
		t.Errorf("it ended with %d:\n%s", code, p.log())
	}
}

// TestKillDuringStart checks that a start whose engine core dies fails.
func TestKillDuringStart(t *testing.T) {
	t.Parallel()
	p := launch(t, "LMWARDEN_SIM_START=40s") // of which 4 s pass
	p.expect("Resolved architecture")
	p.expect("Initializing a V1 LLM engine")
	if err := syscall.Kill(p.enginePID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.expect("Engine core initialization failed")
	if code := p.exit(); code != 1 {
		t.Errorf("it ended with %d, want 1", code)
	}
}

// TestKillServer checks that the engine core outlives its killed parent, and that the
// port is free then.
func TestKillServer(t *testing.T) {
	t.Parallel()
	p := launch(t, "", "-tp", "2")
	p.expect(ready)
	core := p.enginePID()
	p.signal(syscall.SIGKILL)
	p.exit()
	if _, err := http.Get(p.url + "/health"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("the port of the killed server gave %v", err)
	}
	if got := title(core); got != "VLLM::EngineCore" {
		t.Errorf("the engine core is %q after its parent was killed, want it alive", got)
	}
	if err := syscall.Kill(core, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	// Its workers see their engine core go.
	p.expect("Parent process exited, terminating worker queues")
}

// lookAtDead kills something of a server, waits for these lines, and looks at the server in
// the two seconds that it lives on. When this machine is too busy to look in time, it kills
// another one.
func lookAtDead(t *testing.T, flags []string, kill func(*process), lines ...string) *process {
	t.Helper()
	for range 20 {
		p := launch(t, "", flags...)
		p.expect(ready)
		begun := time.Now()
		kill(p)
		for _, line := range lines {
			p.expect(line)
		}
		health, _, err := try(t, http.MethodGet, p.url+"/health", "")
		var res *http.Response
		var body string
		if err == nil {
			res, body, err = try(t, http.MethodPost, p.url+"/v1/completions", `{"model":"tiny","prompt":"hi"}`)
		}
		if err != nil {
			if lived := time.Since(begun); lived < deathDelay {
				t.Fatalf("%v: it was gone after %s: %v", flags, lived, err)
			}
			p.exit()
			continue
		}
		if health.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%v: /health is %d, want 503", flags, health.StatusCode)
		}
		if res.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "EngineCore encountered an issue") {
			t.Errorf("%v: a request gave %d %s", flags, res.StatusCode, body)
		}
		return p
	}
	t.Fatalf("%v: nobody looked at any of 20 servers in time", flags)
	return nil
}

// TestKillEngine checks that a server whose engine core dies says so and ends.
func TestKillEngine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dp, code int
	}{{1, 0}, {2, 1}} {
		p := lookAtDead(t, []string{"-dp", strconv.Itoa(c.dp)}, func(p *process) {
			_, rest, _ := strings.Cut(p.log(), "(EngineCore")
			_, rest, _ = strings.Cut(rest, "pid=")
			digits, _, _ := strings.Cut(rest, ")")
			core, err := strconv.Atoi(digits)
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(core, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}, "died unexpectedly")
		if code := p.exit(); code != c.code {
			t.Errorf("dp %d: it ended with %d, want %d", c.dp, code, c.code)
		}
	}
}

// TestKillWorker checks that the death of a card's process is that of its engine.
func TestKillWorker(t *testing.T) {
	t.Parallel()
	p := lookAtDead(t, []string{"-tp", "2"}, func(p *process) {
		if err := syscall.Kill(groupMember(t, p, "VLLM::Worker_TP1"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}, "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor.", "Engine core proc EngineCore died unexpectedly")
	p.exit()
}

// TestFronts checks the processes and the log of a deployment of two ranks, and that the
// death of one of its API servers ends it.
func TestFronts(t *testing.T) {
	t.Parallel()
	p := launch(t, "", "-dp", "2")
	p.expect(ready)
	titles := groupOf(t, p.cmd.Process.Pid)
	for _, want := range []string{
		"VLLM::APIServer_0", "VLLM::APIServer_1", "VLLM::DPCoordinator", "VLLM::EngineCore_DP0", "VLLM::EngineCore_DP1",
		"VLLM::Worker_DP0_TP0", "VLLM::Worker_DP1_TP0",
	} {
		if !slices.Contains(titles, want) {
			t.Errorf("among the processes %v there is no %s", titles, want)
		}
	}
	for _, line := range []string{"(MainProcess pid=", "Defaulting api_server_count to data_parallel_size (2).", "Started 2 API server processes", "(ApiServer_0 pid=", "(ApiServer_1 pid="} {
		p.expect(line)
	}
	if err := syscall.Kill(groupMember(t, p, "VLLM::APIServer_1"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.expect("RuntimeError: Process ApiServer_1 died unexpectedly.")
	if code := p.exit(); code != exitError {
		t.Errorf("it ended with %d, want %d", code, exitError)
	}
}

// groupMember returns the process id of a member of the program's group.
func groupMember(t *testing.T, p *process, name string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if g, err := syscall.Getpgid(pid); err == nil && g == p.cmd.Process.Pid && title(pid) == name {
			return pid
		}
	}
	t.Fatalf("no process is titled %s", name)
	return 0
}

// TestDrainOfEarlierReleases checks that they answer what comes during a drain without a
// token, and that their log has its own words.
func TestDrainOfEarlierReleases(t *testing.T) {
	t.Parallel()
	p := launch(t, "LMWARDEN_SIM_VERSION=0.22", "--shutdown-timeout=60")
	p.expect(ready)
	ctx, cancel := context.WithCancel(t.Context())
	p.stream(ctx, 8000)
	p.signal(syscall.SIGTERM)
	waitFor(t, func() bool {
		got := post(t, p.url+"/v1/completions", `{"model":"tiny","prompt":"hi","max_tokens":1}`)
		return strings.Contains(got, `"text":"","logprobs":null,"finish_reason":"abort"`)
	})
	if got := post(t, p.url+"/v1/chat/completions", `{"model":"tiny","stream":true,"messages":[{"role":"user","content":"hi"}]}`); !strings.Contains(got, `"finish_reason":"abort"`) || !strings.HasSuffix(got, "data: [DONE]\n\n") {
		t.Errorf("a new stream gave %s", got)
	}
	cancel() // with its last request the drain ends
	p.expect("Shutting down FastAPI HTTP server.")
	if code := p.exit(); code != 0 || strings.Contains(p.log(), "[shutdown] API server") {
		t.Errorf("it ended with %d:\n%s", code, p.log())
	}
}

// TestBadStarts checks exit codes and last lines of starts that fail.
func TestBadStarts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	for _, c := range []struct {
		flags, env, text string
		code             int
	}{
		{"--no-such-flag", "", "vllm serve: error: unrecognized arguments: --no-such-flag", 2},
		{"--port " + taken, "", "[Errno 98] Address already in use", 1},
		{"--gpu-memory-utilization 0.1", "", "No available memory for the cache blocks", 1},
		{"", "LMWARDEN_SIM_SPEED=x", "LMWARDEN_SIM_SPEED", 2},
		{"", "LMWARDEN_SIM_FAULT=die=3", ready, 3},
	} {
		p := launch(t, c.env, strings.Fields(c.flags)...)
		p.expect(c.text)
		if code := p.exit(); code != c.code {
			t.Errorf("%s%s: exit code %d, want %d", c.flags, c.env, code, c.code)
		}
	}
}

// TestStubborn checks the faults that concern a process's end, and refused connections.
func TestStubborn(t *testing.T) {
	t.Parallel()
	p := launch(t, "LMWARDEN_SIM_FAULT=ignore-term,orphan")
	p.expect(ready)
	p.signal(syscall.SIGTERM)
	p.expect("the fault ignore-term is on")
	if res, _ := send(t, http.MethodGet, p.url+"/health", ""); res.StatusCode != http.StatusOK {
		t.Errorf("/health is %d after an ignored SIGTERM", res.StatusCode)
	}
	refuses(t, p)
	waitFor(t, func() bool {
		res, err := http.Get(p.url + "/health")
		if err != nil {
			return false
		}
		res.Body.Close()
		return true
	})
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("it ended with %d once SIGTERM counted again", code)
	}
	if left := groupOf(t, p.cmd.Process.Pid); len(left) != 1 || left[0] != "VLLM::Worker_orphan" {
		t.Errorf("left behind are %v, want the orphan", left)
	}
}

// refuses checks that a connection is refused for as long as a fault says. One that came
// later, on a busy machine, tells nothing.
func refuses(t *testing.T, p *process) {
	t.Helper()
	const long = time.Second
	for range 20 {
		begun := time.Now()
		post(t, p.url+"/sim/fault", `{"fault":"refuse=`+long.String()+`"}`)
		http.DefaultClient.CloseIdleConnections()
		res, err := http.Get(p.url + "/health")
		if err != nil {
			return
		}
		res.Body.Close()
		if after := time.Since(begun); after < long {
			t.Errorf("a connection was accepted %s after the fault, which lasts %s", after, long)
			return
		}
	}
	t.Error("nobody came in time to be refused")
}

// TestKeepAlive checks that an idle connection is closed after five seconds.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	p := launch(t, "")
	p.expect(ready)
	c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begun := time.Now()
	if _, err := io.WriteString(c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK") {
		t.Fatalf("answered %q, %v", answer, err)
	}
	if took := time.Since(begun); took < keepAlive || took > patience {
		t.Errorf("the connection was closed after %s, want 5 s", took)
	}
}
