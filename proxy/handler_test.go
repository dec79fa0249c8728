package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// bubble runs a test with fake time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func TestWholeAnswerIsCountedAndRecorded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(3))
		got := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...)
		if got.status != 200 || got.body != chatWhole || got.err != nil {
			t.Fatalf("got %d %v\n%s", got.status, got.err, got.body)
		}
		for name, want := range map[string]string{
			headerDecision: "placed", headerKeySource: "x-session-id", "Content-Length": fmt.Sprint(len(chatWhole)),
		} {
			if v := got.header.Get(name); v != want {
				t.Errorf("header %s: got %q, want %q", name, v, want)
			}
		}
		synctest.Wait()
		recs := b.records.all()
		if len(recs) != 1 {
			t.Fatalf("got %d records, want 1", len(recs))
		}
		r := recs[0]
		if r.ID != got.header.Get(headerRequest) || r.Model != "m" || r.Status != 200 || r.Attempts != 1 || !r.Decided {
			t.Errorf("record: %+v", r)
		}
		if r.Prompt != 20 || r.Cached != 16 || r.Completion != 5 {
			t.Errorf("usage: got %d/%d/%d, want 20/16/5", r.Prompt, r.Cached, r.Completion)
		}
		if len(r.Decision.Terms) != 2 {
			t.Errorf("the record has %d placement terms, want 2", len(r.Decision.Terms))
		}
		b.wantIdle()
	})
}

func TestTurnsOfAConversationStick(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answers(3))
		home := ""
		for turn := range 5 {
			got := b.post("/v1/chat/completions", chat("m", true), session("conversation-number-one")...)
			if turn == 0 {
				home = got.header.Get(headerReplica)
				continue
			}
			if got.header.Get(headerReplica) != home || got.header.Get(headerDecision) != "sticky" {
				t.Errorf("turn %d went to %s as %s, want %s as sticky", turn+1,
					got.header.Get(headerReplica), got.header.Get(headerDecision), home)
			}
		}
	})
}

func TestChainTellsConversationsWithoutAnID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answers(3))
		first := b.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a long story"}]}`)
		second := b.post("/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"a long story"},{"role":"assistant","content":"hi"},{"role":"user","content":"more"}]}`)
		if second.header.Get(headerDecision) != "sticky" || second.header.Get(headerKeySource) != "chain" {
			t.Errorf("second turn: %s from %s, want sticky from chain", second.header.Get(headerDecision), second.header.Get(headerKeySource))
		}
		if first.header.Get(headerReplica) != second.header.Get(headerReplica) {
			t.Error("the second turn went elsewhere")
		}
	})
}

func TestClientPinsAReplica(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, answers(1))
		for _, c := range []struct {
			header, replica, class string
		}{
			{"3", "m/3", "client_pinned"},
			{"0", "m/0", "client_pinned"},
			{"4", "", "unkeyed"},
			{"-1", "", "unkeyed"},
			{"two", "", "unkeyed"},
		} {
			got := b.post("/v1/embeddings", `{"model":"m","input":"x"}`, headerRank, c.header)
			if got.header.Get(headerDecision) != c.class || (c.replica != "" && got.header.Get(headerReplica) != c.replica) {
				t.Errorf("rank %s: got %s on %s, want %s on %s", c.header,
					got.header.Get(headerDecision), got.header.Get(headerReplica), c.class, c.replica)
			}
		}
		for _, e := range b.engines {
			for _, r := range e.requests() {
				if r.header.Get(headerRank) != "" {
					t.Errorf("%s got the client's rank header", e.host)
				}
			}
		}
	})
}

// A data-parallel deployment is one process: its ranks are asked for by header, and
// not when its own balancer shall choose.
func TestRankHeaderOfADataParallelDeployment(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		b.change(func(m *Model) {
			for i := range m.Replicas {
				m.Replicas[i].URL, m.Replicas[i].Rank = "http://engine0:8000", i
			}
		})
		b.post("/v1/chat/completions", chat("m", false), headerRank, "1")
		b.change(func(m *Model) { m.Routing.Affinity = false })
		got := b.post("/v1/chat/completions", chat("m", false))
		if got.header.Get(headerDecision) != "off" {
			t.Errorf("decision: got %s, want off", got.header.Get(headerDecision))
		}
		seen := b.engines[0].requests()
		if len(seen) != 2 || seen[0].header.Get(headerRank) != "1" || seen[1].header.Get(headerRank) != "" {
			t.Errorf("the engine got %d requests, ranks %q and %q; want 1 and none", len(seen),
				seen[0].header.Get(headerRank), seen[len(seen)-1].header.Get(headerRank))
		}
	})
}

// A handler that fails in the middle has held a replica like any other.
func TestPanicGivesThePlaceBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		b.proxy.options.Recorder = panicky{b.records}
		req := b.request(context.Background(), "/v1/chat/completions", chat("m", false))
		w := brokenWriter{header: http.Header{}}
		func() {
			defer func() { _ = recover() }()
			b.proxy.ServeHTTP(w, req)
		}()
		b.wantIdle()
	})
}

// panicky is a recorder that panics after it has recorded.
type panicky struct{ *memRecorder }

func (p panicky) Record(r Record) {
	p.memRecorder.Record(r)
	panic("recorder")
}

// brokenWriter panics when the answer is written.
type brokenWriter struct{ header http.Header }

func (w brokenWriter) Header() http.Header     { return w.header }
func (brokenWriter) Write([]byte) (int, error) { panic("writer") }
func (brokenWriter) WriteHeader(int)           {}

func TestStoredResponsesGoToTheirOwner(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 4, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"resp_1","object":"response","model":"m","output":[],"usage":{"input_tokens":9,"output_tokens":1}}`)
		})
		made := b.post("/v1/responses", `{"model":"alias","input":"hi"}`)
		if !strings.Contains(made.body, `"model":"alias"`) {
			t.Errorf("the alias is not restored: %s", made.body)
		}
		owner := made.header.Get(headerReplica)
		for _, path := range []string{"/v1/responses/resp_1", "/v1/responses/resp_1/cancel"} {
			body := ""
			if strings.HasSuffix(path, "cancel") {
				body = "{}"
			}
			got := b.post(path, body)
			if got.status != 200 || got.header.Get(headerReplica) != owner || !strings.Contains(got.body, `"model":"alias"`) {
				t.Errorf("%s: got %d from %s, want 200 from %s: %s", path, got.status, got.header.Get(headerReplica), owner, got.body)
			}
		}
		next := b.post("/v1/responses", `{"model":"m","input":"more","previous_response_id":"resp_1"}`)
		if next.header.Get(headerReplica) != owner {
			t.Errorf("the follow-up went to %s, want %s", next.header.Get(headerReplica), owner)
		}
		b.wantIdle()
	})
}

func TestAudioFormIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		form := "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n\x00\x01\xff\r\n" +
			"--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n%s\r\n--x--\r\n"
		r := b.request(context.Background(), "/v1/audio/transcriptions", fmt.Sprintf(form, "alias"))
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		if got := b.do(r); got.status != 200 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		if seen := b.engines[0].requests()[0]; seen.body != fmt.Sprintf(form, "m") {
			t.Errorf("the engine got\n%q", seen.body)
		}
	})
}

func TestSettingsChangeLive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...)
		b.change(func(m *Model) { m.Routing.Affinity = false })
		if got := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...); got.header.Get(headerDecision) != "off" {
			t.Errorf("got %s, want off", got.header.Get(headerDecision))
		}
		b.change(func(m *Model) { m.Routing.Affinity = true })
		got := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...)
		if d := got.header.Get(headerDecision); d != "sticky" && d != "placed" {
			t.Errorf("got %s, want the conversation to go on", d)
		}
		if v, ok := b.proxy.View("m"); !ok || v.Counts[route.ClassOff] != 1 {
			t.Errorf("the counters did not survive: %+v", v.Counts)
		}
		if _, ok := b.proxy.View("nope"); ok {
			t.Error("there is a view of a model that does not exist")
		}
	})
}

func TestMoveAndForget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		first := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...)
		var key route.Key
		b.proxy.Conversations("m", func(c route.ConversationView) bool { key = c.Key; return true })
		if shortKey(key) != first.header.Get(headerConversation) {
			t.Fatalf("conversation %s, header %s", shortKey(key), first.header.Get(headerConversation))
		}
		to := 1
		if first.header.Get(headerReplica) == "m/1" {
			to = 0
		}
		if err := b.proxy.Move("m", key, to); err != nil {
			t.Fatal(err)
		}
		if got := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...); got.header.Get(headerReplica) != fmt.Sprintf("m/%d", to) {
			t.Errorf("after the move it went to %s", got.header.Get(headerReplica))
		}
		if err := b.proxy.Forget("m", key); err != nil {
			t.Fatal(err)
		}
		if got := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...); got.header.Get(headerDecision) != "placed" {
			t.Errorf("after forgetting: got %s, want placed", got.header.Get(headerDecision))
		}
		for _, err := range []error{b.proxy.Move("m", key, 9), b.proxy.Move("x", key, 0), b.proxy.Forget("m", route.Key{1}), b.proxy.Forget("x", key)} {
			if err == nil {
				t.Error("a wrong call succeeded")
			}
		}
	})
}

func TestSlowBodyIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		pr, pw := io.Pipe()
		r := b.request(context.Background(), "/v1/messages", "x")
		r.Body, r.ContentLength = pr, 1000
		go func() { _, _ = io.WriteString(pw, `{"model"`) }()
		start := time.Now()
		got := b.do(r)
		_ = pw.Close()
		if took := time.Since(start); took > 2*time.Minute {
			t.Errorf("it took %v", took)
		}
		if got.err == nil && got.status != http.StatusRequestTimeout {
			t.Errorf("got %d %s, want 408", got.status, got.body)
		}
		b.wantIdle()
	})
}
