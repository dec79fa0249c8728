package vllmd

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
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
	try := func(limit time.Duration, path string) (int, string, error) {
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
	if code, _, err := try(time.Minute, chat); err != nil || code != http.StatusInternalServerError {
		t.Errorf("500 gave %d %v", code, err)
	}
	set("cut=3")
	if code, got, err := try(time.Minute, chat); err == nil || strings.Contains(got, "[DONE]") {
		t.Errorf("a cut stream gave %d, ended with %v and is %q", code, err, got)
	}
	set("wedge")
	if code, _, err := try(time.Minute, "/health"); err != nil || code != http.StatusOK {
		t.Errorf("a wedged engine's health is %d %v", code, err)
	}
	if code, got, err := try(time.Second, chat); err == nil || code != http.StatusOK || got != "" {
		t.Errorf("a wedged engine gave %d %q %v", code, got, err)
	}
	set("hang")
	if _, _, err := try(100*time.Millisecond, "/health"); err == nil {
		t.Error("a hanging engine's health answered")
	}
	set("")
	if code, got, err := try(time.Minute, chat); err != nil || code != http.StatusOK || !strings.HasSuffix(got, "[DONE]\n\n") {
		t.Errorf("without faults: %d %q %v", code, got, err)
	}
	if res, answer := send(t, http.MethodPost, url+"/sim/fault", `{"fault":"nonsense"}`); res.StatusCode != http.StatusBadRequest || !strings.Contains(answer, "nonsense") {
		t.Errorf("an unknown fault gave %d %s", res.StatusCode, answer)
	}
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
