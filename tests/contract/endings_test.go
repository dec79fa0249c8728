package contract

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// refused says whether nobody listens on the engine's port.
func (e *engine) refused() error {
	conn, err := net.DialTimeout("tcp", e.address, time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err == nil {
		conn.Close()
	}
	return fmt.Errorf("a new connection gave %w, want it refused", err)
}

// What reading a stream to its end gives, as a Go string and an error: the end mark of
// a chat, and the errors of streams that lost their engine core. The messages API
// stumbles over the error of the chat stream that it is made of, the responses API
// breaks off without one.
const wholeEnd = `data: [DONE]\n\n", <nil>`

var (
	brokenChat      = regexp.MustCompile(`data: \{\\"error\\": ?\{\\"message\\": ?\\"EngineCore encountered an issue.*data: \[DONE\]\\n\\n", <nil>$`)
	brokenResponses = regexp.MustCompile(`\\n\\n", unexpected EOF$`)
	brokenMessages  = regexp.MustCompile(`event: error\\ndata: \{\\"type\\": ?\\"error\\", ?\\"error\\": ?\{\\"type\\": ?\\"internal_error\\".*", <nil>$`)
)

// termUnderStream: the engine core ends and the port is closed. What the stream sees of
// it is a race within the engine. When the core still finds the time to say so, the
// stream ends with the reason "abort"; when the API server finds it gone while it waits
// for its output, with the error of a lost engine core; and the API server ends. Else
// the stream gets neither a token nor an end, and the API server waits for its client to
// go.
func termUnderStream(t *testing.T, e *engine) {
	s := e.openStream(t, chatPath)
	end := s.rest()
	e.signal(t, syscall.SIGTERM)
	harness.Within(t, soon, func() error {
		if pid := e.core(); pid != 0 {
			return fmt.Errorf("the engine core %d still runs", pid)
		}
		return nil
	})
	harness.Within(t, soon, e.refused)
	select {
	case last := <-end:
		switch {
		case strings.Contains(last, `\"finish_reason\":\"abort\"`) && strings.HasSuffix(last, wholeEnd):
			t.Log("the stream was ended")
		case brokenChat.MatchString(last):
			t.Log("the stream was broken off")
		default:
			t.Errorf("the stream ended with %s; it should hang, or end with the reason abort, or with the error of a lost engine core", last)
		}
	case <-time.After(5 * time.Second):
		t.Log("the stream hung")
		select {
		case <-e.gone:
			t.Error("the API server ended before its stream")
		default:
		}
		s.cancel()
	}
	if code := e.exitCode(t, soon); code != 0 {
		t.Errorf("the exit code is %d, want 0", code)
	}
	e.waitEmpty(t, soon)
}

// killServer: the engine core lives on, and the port is free.
func killServer(t *testing.T, e *engine) {
	s := e.openStream(t, chatPath)
	end := s.rest()
	others := e.group()
	delete(others, e.pid())
	e.signal(t, syscall.SIGKILL)
	e.exitCode(t, soon)
	select {
	case last := <-end:
		if strings.Contains(last, "[DONE]") || strings.Contains(last, `"error"`) {
			t.Errorf("the cut stream ended with %s", last)
		}
	case <-time.After(soon):
		t.Error("the stream goes on without its API server")
	}
	harness.Within(t, soon, e.refused)
	time.Sleep(3 * time.Second)
	if e.core() == 0 {
		t.Errorf("the engine core ended with its API server; of %v there are %v", others, e.group())
	}
	e.killGroup(t)
}

// livesOn is how long the simulated engine's API server answers 503 before it ends. On a busy
// machine nobody may look at it for so long.
const livesOn = 2 * time.Second

// killInner kills an inner process, the engine core or its worker: /health says so and
// requests fail, until the API server ends by itself within some seconds: it looks after
// its engine core now and then, and when a request has failed.
func killInner(t *testing.T, e *engine, pid int) {
	if pid == 0 {
		t.Fatalf("the process is not among %v", e.group())
	}
	chat, messages := e.openStream(t, chatPath).rest(), e.openStream(t, "/v1/messages").rest()
	responses := e.beginStream(t, "/v1/responses", `{"model":"tiny","input":"count","max_output_tokens":3800,"temperature":0,"ignore_eos":true,"stream":true}`).rest()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	looked := killed // for the last time while it answered
	harness.Within(t, soon, func() error {
		begun := time.Now()
		got, err := exchange{method: http.MethodGet, path: "/health"}.send(t.Context(), e.url)
		switch {
		case err == nil && got.status != http.StatusServiceUnavailable:
			looked = begun
			return fmt.Errorf("/health is %d, want 503", got.status)
		case err != nil && time.Since(killed) > time.Second && time.Since(looked) < livesOn:
			return err // it has ended before anybody could see a 503, and not by such a chance
		}
		return nil
	})
	failed := exchange{
		path: "/v1/chat/completions", body: `{"model":"tiny","messages":[{"role":"user","content":"count"}],"max_tokens":8}`,
		status: http.StatusInternalServerError, want: openAIError("InternalServerError", nil, http.StatusInternalServerError, "^EngineCore encountered an issue"),
	}
	if got, err := failed.send(t.Context(), e.url); err == nil {
		failed.check(t, got)
	} else if err := e.refused(); err != nil {
		t.Error(err)
	}
	for end, want := range map[<-chan string]*regexp.Regexp{chat: brokenChat, messages: brokenMessages, responses: brokenResponses} {
		select {
		case last := <-end:
			if !want.MatchString(last) {
				t.Errorf("the stream ended with %s, want %s", last, want)
			}
		case <-time.After(soon):
			t.Error("the stream goes on without its engine core")
		}
	}
	if code := e.exitCode(t, soon); code != 0 {
		t.Errorf("the exit code is %d, want 0", code)
	}
	// A worker process, where there is one, takes its time to notice.
	begun := time.Now()
	e.waitEmpty(t, 2*time.Minute)
	t.Logf("its last process ended %.0f s after the API server", time.Since(begun).Seconds())
}
