package vllmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

func TestParseFaults(t *testing.T) {
	on, err := parseFaults("cut=3, wedge,die=7@2s,refuse=1s,,slow-start=5ms")
	if err != nil {
		t.Fatal(err)
	}
	if on[faultCut].number != 3 || on[faultDie].number != 7 || on[faultDie].duration != 2*time.Second ||
		on[faultRefuse].duration != time.Second || on[faultSlowStart].duration != 5*time.Millisecond || on[faultWedge].name == "" {
		t.Errorf("read %+v", on)
	}
	for _, bad := range []string{"nonsense", "cut", "cut=0", "cut=x", "die=", "die=1@x", "wedge=1", "slow-start", "refuse=x"} {
		if _, err := parseFaults(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestFaults sets faults at run time and looks at what clients see.
func TestFaults(t *testing.T) {
	s, url := testServer(t)
	s.faults.onChange = func(on map[string]fault) {
		_, wedged := on[faultWedge]
		s.cores[0].freeze(wedged)
	}
	const body = `{"model":"tiny","max_tokens":50,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	set := func(list string) {
		t.Helper()
		post(t, url+"/sim/fault", `{"fault":"`+list+`"}`)
	}
	within := func(limit time.Duration, path string) (int, string, error) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		method := http.MethodPost
		if path == "/health" {
			method = http.MethodGet
		}
		req, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		return res.StatusCode, string(raw), err
	}
	const chat = "/v1/chat/completions"

	set("500")
	if code, _, err := within(time.Minute, chat); err != nil || code != http.StatusInternalServerError {
		t.Errorf("500 gave %d %v", code, err)
	}
	set("cut=3")
	if code, got, err := within(time.Minute, chat); err == nil || strings.Contains(got, "[DONE]") {
		t.Errorf("a cut stream gave %d, ended with %v and is %q", code, err, got)
	}
	set("wedge")
	if code, _, err := within(time.Minute, "/health"); err != nil || code != http.StatusOK {
		t.Errorf("a wedged engine's health is %d %v", code, err)
	}
	wedged(t, s, url+chat, body)
	set("hang")
	if _, _, err := within(100*time.Millisecond, "/health"); err == nil {
		t.Error("a hanging engine's health answered")
	}
	set("")
	if code, got, err := within(time.Minute, chat); err != nil || code != http.StatusOK || !strings.HasSuffix(got, "[DONE]\n\n") {
		t.Errorf("without faults: %d %q %v", code, got, err)
	}
	if res, answer := send(t, http.MethodPost, url+"/sim/fault", `{"fault":"nonsense"}`); res.StatusCode != http.StatusBadRequest || !strings.Contains(answer, "nonsense") {
		t.Errorf("an unknown fault gave %d %s", res.StatusCode, answer)
	}
}

// wedged looks at a stream of an engine that stands still: it has its headers and nothing
// else until its client goes.
func wedged(t *testing.T, s *server, url, body string) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	waitFor(t, func() bool { return s.cores[0].busy() == 1 })
	time.AfterFunc(500*time.Millisecond, leave)
	if got, err := io.ReadAll(res.Body); !errors.Is(err, context.Canceled) || res.StatusCode != http.StatusOK || len(got) > 0 {
		t.Errorf("a wedged engine gave %d %q %v", res.StatusCode, got, err)
	}
}

// TestCutIsExact counts the words that come before a stream breaks off: each is a token.
func TestCutIsExact(t *testing.T) {
	s, url := testServer(t)
	const words = 50
	ask := func(path string, tokens int) (said []string, ended bool) {
		t.Helper()
		body := fmt.Sprintf(`{"model":"tiny","max_tokens":%d,"stream":true,"messages":[{"role":"user","content":"hi"}]}`, tokens)
		res, err := http.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		text := ""
		for _, m := range regexp.MustCompile(`"(?:content|text)":"([^"]*)"`).FindAllStringSubmatch(string(raw), -1) {
			text += m[1]
		}
		ended = strings.Contains(string(raw), "[DONE]") || strings.Contains(string(raw), "message_stop")
		if ended != (err == nil) || !ended && regexp.MustCompile(`"(?:finish|stop)_reason":"`).Match(raw) {
			t.Errorf("%s: the stream ended with %v: %s", path, err, raw)
		}
		return strings.Fields(text), ended
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		s.faults.set(nil)
		whole, ended := ask(path, words)
		if len(whole) != words || !ended {
			t.Fatalf("%s: the whole answer is %q", path, whole)
		}
		for _, c := range []struct {
			cut, tokens, said int
			ended             bool
		}{{1, words, 1, false}, {5, words, 5, false}, {words, words, words, false}, {words + 1, words, words, true}, {5, 4, 4, true}} {
			s.faults.set(map[string]fault{faultCut: {name: faultCut, number: c.cut}})
			if said, ended := ask(path, c.tokens); !slices.Equal(said, whole[:c.said]) || ended != c.ended {
				t.Errorf("%s, cut=%d of %d tokens: %q, ended %v; want the first %d words and %v", path, c.cut, c.tokens, said, ended, c.said, c.ended)
			}
		}
	}
}

// TestCutOfALongStream has a fault come when a stream is past its number: nothing more is
// told.
func TestCutOfALongStream(t *testing.T) {
	f := &faults{on: map[string]fault{faultCut: {number: 5}}}
	for _, c := range []struct{ told, output, left int }{{0, 4, 4}, {4, 5, 5}, {2, 9, 5}, {7, 9, 7}} {
		ev := engine.Event{Output: c.output, Done: true}
		if cut := f.cut(&ev, c.told); cut != (c.output >= 5) || ev.Output != c.left || ev.Done == cut {
			t.Errorf("at %d of %d tokens: cut %v, %+v; want %d tokens", c.told, c.output, cut, ev, c.left)
		}
	}
}

// TestDeathIsCalledOff ends a fault before its time has come, and replaces one.
func TestDeathIsCalledOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{exit: make(chan int, 1), srv: &server{faults: &faults{}}}
		d.srv.faults.onChange = d.applyFaults
		for _, step := range []struct {
			fault string
			after time.Duration
			code  int // 0 for none
		}{
			{"die=3@10s", 10*time.Second - 1, 0},
			{"", time.Minute, 0},
			{"die=4@10s", 5 * time.Second, 0},
			{"die=5@20s,wedge", 20*time.Second - 1, 0},
			{"die=6@20s", 20 * time.Second, 6},
			{"die=7", 0, 7},
		} {
			on, err := parseFaults(step.fault)
			if err != nil {
				t.Fatal(err)
			}
			d.srv.faults.set(on)
			time.Sleep(step.after)
			synctest.Wait()
			code := 0
			select {
			case code = <-d.exit:
			default:
			}
			if code != step.code {
				t.Errorf("%v after %q the process exits with %d, want %d; 0 is not at all", step.after, step.fault, code, step.code)
			}
		}
	})
}

// TestDeadEngine checks what clients see of an engine that has died under them.
func TestDeadEngine(t *testing.T) {
	s, url := testServerAt(t, 1)
	answer := make(chan string, 1)
	go func() {
		_, body := send(t, http.MethodPost, url+"/v1/messages", `{"model":"tiny","max_tokens":5000,"ignore_eos":true,"stream":true,"messages":[{"role":"user","content":"hi"}]}`)
		answer <- body
	}()
	waitFor(t, func() bool { return s.cores[0].busy() == 1 })
	s.dead.Store(true)
	s.cores[0].fail(errEngineDead)
	if body := <-answer; !strings.Contains(body, "event: error\n") || !strings.Contains(body, "internal_error") {
		t.Errorf("the stream ended with %q", body)
	}
	if res, _ := send(t, http.MethodGet, url+"/health", ""); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("health is %d, want 503", res.StatusCode)
	}
	if res, body := send(t, http.MethodPost, url+"/v1/completions", `{"model":"tiny","prompt":"hi"}`); res.StatusCode != http.StatusInternalServerError {
		t.Errorf("a request gave %d %s, want 500", res.StatusCode, body)
	}
}
