package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/lmwarden/lmwarden/bench/report"
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/sim/run/load"
)

// TestBenchRefusals turns what cannot be into a sentence, before anything is sent.
func TestBenchRefusals(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer endpoint.Close()
	trace := shortTrace(t)
	for want, args := range map[string][]string{
		"step of 0s":                        {"--duration", "0s"},
		"step of -1m":                       {"--duration", "-1m"},
		"step of 0 sessions":                {"--steps", "4,0"},
		"-2 rounds":                         {"--rounds", "-2"},
		"warm-up of -1s":                    {"--warmup", "-1s"},
		"no load":                           {"--load", "heavy"},
		"think time":                        {"--think", "often"},
		"choose messages":                   {"--api", "soap"},
		"trace cannot be read":              {"--trace", "/nonexistent"},
		"needs --model":                     {"--model", ""},
		"step of 2 sessions is named twice": {"--steps", "2,4,2"},
		"0 rounds":                          {"--rounds", "0"},
		"leave --arms out":                  {"--arms", "bogus"},
		"leave --steps out":                 {"--trace", trace, "--steps", "99"},
		"leave --load out":                  {"--trace", trace, "--load", "bursts"},
		"leave --think out":                 {"--trace", trace, "--think", "exp:5"},
		"no form \"yaml\"":                  {"-o", "yaml"},
	} {
		got := lmwarden(t, nil, "", append([]string{"bench", "sessions", "--url", endpoint.URL, "--model", "m"}, args...)...)
		if got.code != exitUsage || !strings.Contains(got.err, want) || got.stdout != "" {
			t.Errorf("%v: exit code %d: %s%s; want a sentence with %q", args, got.code, got.err, got.stdout, want)
		}
	}
	box := newFakeBox(t)
	for _, arm := range []string{"fastest", "lopsided:9", "blind:1"} {
		if got := box.lmwarden(t, "bench", "sessions", "--arms", arm); got.code != exitUsage || !strings.Contains(got.err, arm) {
			t.Errorf("arm %s: exit code %d: %s", arm, got.code, got.err)
		}
	}
	got := box.lmwarden(t, "bench", "sessions", "--arms", "working_set,off, working-set")
	if got.code != exitUsage || !strings.Contains(got.err, "the arm working-set is named twice") {
		t.Errorf("an arm twice: exit code %d: %s", got.code, got.err)
	}
}

// routingChanges counts those that were asked for.
func routingChanges(box *fakeBox) (n int) {
	for _, call := range box.calls {
		if _, ok := call.(*lmwardenv1.UpdateRoutingRequest); ok {
			n++
		}
	}
	return n
}

// TestBenchDeclaredModel refuses before anything is sent, and names the way that there is.
func TestBenchDeclaredModel(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }))
	defer endpoint.Close()
	box := newFakeBox(t)
	box.inference, box.declared = endpoint.URL, "/etc/lmwarden.yaml"
	got := box.lmwarden(t, "bench", "sessions", "--steps", "1", "--duration", "1s")
	want := `model "qwen3-4b" is declared in /etc/lmwarden.yaml and is read-only here, so no arm can be switched; measure it as it is with --url ` + endpoint.URL + " --model qwen3-4b"
	if got.code != exitConflict || !strings.Contains(got.err, want) || got.stdout != "" || routingChanges(box) != 0 {
		t.Errorf("exit code %d, %d changes: %s%s; want %s", got.code, routingChanges(box), got.err, got.stdout, want)
	}
}

// TestBenchNothingToRestore leaves the routing alone when no arm came into force.
func TestBenchNothingToRestore(t *testing.T) {
	box := newFakeBox(t)
	box.inference, box.readOnly = newEndpoint(t), connect.Errorf(connect.CodeInvalidArgument, "no such policy")
	got := box.lmwarden(t, "bench", "sessions", "--steps", "1", "--duration", "1s")
	if got.code == 0 || !strings.Contains(got.err, "no such policy") || strings.Contains(got.err, "as it was before") || routingChanges(box) != 1 {
		t.Errorf("exit code %d, %d changes: %s; want the refusal of the only one", got.code, routingChanges(box), got.err)
	}
}

// TestBenchTrace ends with the trace, measures nothing of one that ends within the warm-up,
// and does not go on from the steps of another one of the same name.
func TestBenchTrace(t *testing.T) {
	box := newFakeBox(t)
	box.inference = newEndpoint(t)
	trace, file := filepath.Join(t.TempDir(), "trace.jsonl"), filepath.Join(t.TempDir(), "series.json")
	write := func(output int) {
		line := fmt.Sprintf(`{"at":0.1,"conversation":"a","prompt":10,"output":%d}`, output)
		if err := os.WriteFile(trace, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	play := func(more ...string) command {
		return box.lmwarden(t, append([]string{
			"bench", "sessions", "--arms", "off", "--trace", trace, "--duration", "30m", "-o", "json",
		}, more...)...)
	}
	write(5)
	got := play("--warmup", "5m")
	if got.code != exitFailure || got.stdout != "" || !strings.Contains(got.err, ", within the warm-up of 5m0s; nothing was measured") {
		t.Errorf("within the warm-up: exit code %d: %s%s", got.code, got.stdout, got.err)
	}
	var series struct {
		Settings benchSettings
		PerRun   []report.Run
	}
	got = play("--resume", file)
	if err := json.Unmarshal([]byte(got.stdout), &series); err != nil || got.code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", got.code, err, got.stdout, got.err)
	}
	if len(series.PerRun) != 1 || *series.PerRun[0].Requests != 1 || series.PerRun[0].Seconds > 60 || len(series.Settings.TraceSHA256) != 64 {
		t.Errorf("%+v; want one request in a moment, and the hash of the trace", series)
	}
	write(6)
	if got = play("--resume", file); got.code != exitUsage || !strings.Contains(got.err, "a series with other settings") {
		t.Errorf("another trace: exit code %d: %s%s", got.code, got.stdout, got.err)
	}
}

// rawEndpoint answers each request with the given bytes and hangs up.
func rawEndpoint(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			_, _ = io.WriteString(c, answer)
			c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// TestBenchWrongEndpoints says of an endpoint that cannot be measured what it did instead.
func TestBenchWrongEndpoints(t *testing.T) {
	serve := func(status int, kind, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, c := range map[string]struct{ url, says string }{
		"refuses the key":       {serve(401, "application/json", `{"error":{"message":"no such key"}}`), "answered 401: no such key; give its key in LMWARDEN_KEY"},
		"a web page":            {serve(200, "text/html", "<html>"), "is " + "http"},
		"no JSON in its frames": {serve(200, "text/event-stream", "data: <ok>\n\n"), "is not JSON"},
		"an error in a stream":  {serve(200, "text/event-stream", "data: {\"error\":{\"message\":\"overloaded\"}}\n\n"), "overloaded"},
		"ends early":            {serve(200, "text/event-stream", "data: {}\n\n"), "before the answer was complete"},
		"counts no tokens":      {serve(200, "text/event-stream", "data: [DONE]\n\n"), "no prompt tokens"},
		"speaks SSH":            {rawEndpoint(t, "SSH-2.0-OpenSSH_9.2\r\n"), "malformed HTTP"},
		"hangs up":              {rawEndpoint(t, ""), "EOF"},
		"is no URL":             {"not a url", "not a url"},
		"serves other paths":    {serve(404, "application/json", `{"detail":"Not Found"}`) + "/v1/", "answered 404: it has no /v1/chat/completions"},
	} {
		t.Run(name, func(t *testing.T) {
			got := lmwarden(t, nil, "", "bench", "sessions", "--url", c.url, "--model", "m", "--api", "chat", "--steps", "1", "--duration", "1s")
			if got.code != exitFailure || !strings.Contains(got.err, "cannot be measured") || !strings.Contains(got.err, c.says) || got.stdout != "" {
				t.Errorf("exit code %d: %s%s; want a sentence with %q", got.code, got.err, got.stdout, c.says)
			}
		})
	}
}

// trigger calls a function when a text is written to it.
type trigger struct {
	bytes.Buffer
	text string
	pull func()
}

func (w *trigger) Write(p []byte) (int, error) {
	if w.pull != nil && bytes.Contains(p, []byte(w.text)) {
		w.pull()
		w.pull = nil
	}
	return w.Buffer.Write(p)
}

// TestBenchInterrupted ends with its own code, prints what was measured, keeps the
// finished steps in its file and goes on from there.
func TestBenchInterrupted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "series.json")
	args := []string{
		"bench", "sessions", "--url", newEndpoint(t), "--model", "m", "--steps", "1", "--duration", "1s", "--rounds", "3", "--resume", file, "-o", "json",
	}
	play := func(ctx context.Context, stderr *trigger) command {
		var stdout bytes.Buffer
		code := run(ctx, streams{
			in: new(bytes.Buffer), out: &stdout, err: stderr,
			getenv: func(string) string { return "" }, now: func() time.Time { return noon },
		}, args)
		return command{code, stdout.String(), stderr.String()}
	}
	type series struct {
		Interrupted     bool
		Stopped, PerRun []report.Run
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	got := play(ctx, &trigger{text: "round 2,", pull: func() { cancel(errInterrupted) }})
	var said series
	if err := json.Unmarshal([]byte(got.stdout), &said); err != nil {
		t.Fatalf("%v: %s%s", err, got.stdout, got.err)
	}
	if got.code != exitInterrupted || !said.Interrupted || len(said.Stopped) != 1 || said.Stopped[0].Round != 2 || len(said.PerRun) != 1 {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.err)
	}
	if data, err := os.ReadFile(file); err != nil || strings.Count(string(data), `"round":`) != 1 {
		t.Errorf("the file holds %s, %v", data, err)
	}
	first := said.PerRun[0]
	got, said = play(t.Context(), &trigger{}), series{}
	if err := json.Unmarshal([]byte(got.stdout), &said); err != nil || got.code != 0 || len(said.PerRun) != 3 || said.Interrupted || len(said.Stopped) != 0 {
		t.Fatalf("resumed: exit code %d, %v: %s%s", got.code, err, got.stdout, got.err)
	}
	if diff := cmp.Diff(first, said.PerRun[0]); diff != "" {
		t.Errorf("the step of before was measured again:\n%s", diff)
	}
}

// TestBenchResumeFailed measures a step again in which every request failed.
func TestBenchResumeFailed(t *testing.T) {
	longEnough(t, func(length time.Duration) bool {
		var requests atomic.Int32
		var full atomic.Bool
		full.Store(true)
		endpoint := newEndpointThat(t, func() bool { return requests.Add(1) <= 2 || !full.Load() }) // two are of the calibration
		args := []string{
			"bench", "sessions", "--url", endpoint, "--model", "m", "--steps", "1", "--duration", length.String(),
			"--resume", filepath.Join(t.TempDir(), "series.json"), "-o", "json",
		}
		got := lmwarden(t, nil, "", args...)
		if got.code == 0 {
			return false // none was answered, so none has failed
		}
		if got.code != exitFailure || got.stdout != "" || !strings.Contains(got.err, "no request of the step succeeded: the endpoint answered 503: full") {
			t.Fatalf("exit code %d: %s%s", got.code, got.stdout, got.err)
		}
		full.Store(false)
		var series struct{ PerRun []report.Run }
		got = lmwarden(t, nil, "", args...)
		if err := json.Unmarshal([]byte(got.stdout), &series); err != nil || got.code != 0 || len(series.PerRun) != 1 {
			t.Fatalf("resumed: exit code %d, %v: %s%s; want the step measured", got.code, err, got.stdout, got.err)
		}
		return *series.PerRun[0].Requests > 0
	})
}

// TestBenchRecord writes a trace of what a daemon remembers, without those that failed.
func TestBenchRecord(t *testing.T) {
	box := newFakeBox(t)
	got := box.lmwarden(t, "bench", "record")
	want := `{"at":0,"done":9,"conversation":"8f1c0a9be2d47750","prompt":12400,"output":256}` + "\n"
	if got.code != 0 || got.stdout != want || !strings.Contains(got.err, "1 request is left out") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.err)
	}
	if trace, err := load.ReadTrace(strings.NewReader(got.stdout)); err != nil || trace.Conversations() != 1 {
		t.Errorf("it cannot be played: %v", err)
	}
	// What was there before is not what ends from now on.
	got = box.lmwarden(t, "bench", "record", "--for", "1ms")
	if got.code != exitFailure || got.stdout != "" || !strings.Contains(got.err, "nothing was recorded") {
		t.Errorf("exit code %d: %s%s", got.code, got.stdout, got.err)
	}
	for _, args := range [][]string{{"--for", "-1s"}, {"-o", "json"}} {
		if got := box.lmwarden(t, append([]string{"bench", "record"}, args...)...); got.code != exitUsage || got.stdout != "" {
			t.Errorf("%v: exit code %d: %s", args, got.code, got.err)
		}
	}
}
