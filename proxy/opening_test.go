package proxy

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// announcing is an engine of the responses surface: it repeats the request in what it
// announces, as vLLM does, and then says more.
func announcing(then ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Instructions, Metadata json.RawMessage }
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &asked); err != nil {
			panic(err)
		}
		frames := make([]string, 0, 2+len(then))
		for _, kind := range []string{"response.created", "response.in_progress"} {
			frames = append(frames, fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"response\":{\"id\":\"r\",\"error\":null,\"instructions\":%s,\"metadata\":%s,\"output\":[]}}\n\n",
				kind, kind, asked.Instructions, asked.Metadata))
		}
		sendFrames(w, append(frames, then...), 0)
	}
}

// strikes returns what is held against the replicas.
func (b *box) strikes() (n int) {
	for _, r := range b.proxy.table.Load().named["m"].replicas {
		if r.breaker.state(time.Now()) != breakerClosed {
			b.t.Errorf("the breaker of %s is not closed", r.id)
		}
		n += r.breaker.strikes
	}
	return n
}

// A client cannot make replicas look dead: its own words come back in announcements, in
// tokens and in errors, and are no news of the engine.
func TestClientsWordsAreNoDeadEngine(t *testing.T) {
	const request = `{"model":"m","stream":true,"instructions":"EngineDeadError","metadata":{"error":"EngineCore encountered an issue"},"input":"hi"}`
	const token = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"t\"}\n\n"
	const quoting = `{"error":{"message":"The tool EngineDeadError is unknown","type":"InternalServerError","param":"EngineDeadError","code":500}}`
	said := strings.Replace(chatWhole, `"hi"`, `"\"error\": EngineDeadError"`, 1)
	for name, c := range map[string]struct {
		path, body string
		script     http.HandlerFunc
		strikes    int
	}{
		"announced": {"/v1/responses", request, announcing(token, responseCompleted), 0},
		"announced, and an error that quotes": {
			"/v1/responses", request,
			announcing("event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"bad EngineDeadError\"}}}\n\n"), 0,
		},
		"said in a stream": {"/v1/chat/completions", chat("m", true), func(w http.ResponseWriter, _ *http.Request) {
			sendFrames(w, []string{strings.Replace(chatChunks(1)[1], " t0", ` \"error\" EngineDeadError`, 1), doneFrame}, 0)
		}, 0},
		"said in a whole answer": {"/v1/chat/completions", chat("m", false), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, said)
		}, 0},
		"quoted in an error": {"/v1/chat/completions", chat("m", false), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, quoting)
		}, strikeStatus},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 2, c.script)
				got := b.post(c.path, c.body)
				if got.err != nil {
					t.Errorf("got %d %v %s", got.status, got.err, got.body)
				}
				if r := b.lastRecord(); r.Attempts != 1 || b.arrived() != 1 {
					t.Errorf("%d attempts, and the engines got %d requests, want 1", r.Attempts, b.arrived())
				}
				if n := b.strikes(); n != c.strikes {
					t.Errorf("%d strikes, want %d", n, c.strikes)
				}
				b.wantIdle()
			})
		})
	}
}

// An engine that dies behind its announcement is one, and another replica answers.
func TestDeadBehindTheAnnouncement(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dead := "event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"EngineCore encountered an issue.\"}\n\n"
		b := newBox(t, 2, once(announcing(dead), announcing(responseCompleted)))
		b.engines[1].does(b.engines[0].script) // one turn for both
		got := b.post("/v1/responses", `{"model":"m","stream":true,"instructions":"be brief","metadata":{},"input":"hi"}`)
		if got.err != nil || strings.Contains(got.body, "EngineCore") || !strings.Contains(got.body, "response.completed") {
			t.Errorf("got %v %s", got.err, got.body)
		}
		if r := b.lastRecord(); r.Attempts != 2 {
			t.Errorf("%d attempts, want 2", r.Attempts)
		}
		b.wantIdle()
	})
}

// A long announcement arrives as it was sent, however its pieces come.
func TestLongAnnouncements(t *testing.T) {
	for name, size := range map[string]int{"in one piece": 100, "in many": 100 << 10, "beyond what is kept back": beginningLimit} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, announcing(responseCompleted))
				long := strings.Repeat("x", size)
				got := b.post("/v1/responses", `{"model":"m","stream":true,"instructions":"`+long+`","metadata":{},"input":"hi"}`)
				if got.err != nil || strings.Count(got.body, `"instructions":"`+long+`"`) != 2 || !strings.HasSuffix(got.body, responseCompleted) {
					t.Errorf("got %v and %d bytes", got.err, len(got.body))
				}
				b.wantIdle()
			})
		})
	}
}

// JSON without a length ends with its connection, so its brackets say whether it is whole:
// half of it is never passed on as an answer.
func TestHalfAWholeAnswerWasCut(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
	for name, c := range map[string]struct {
		answer   string
		replicas int
		status   int
	}{
		"whole":                 {chatWhole, 1, 200},
		"half":                  {chatWhole[:len(chatWhole)/2], 1, 502},
		"nothing":               {"", 1, 502},
		"half, and another one": {chatWhole[:len(chatWhole)-1], 2, 200},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, c.replicas, once(raw(t, head+c.answer), answers(1)))
				for _, e := range b.engines[1:] {
					e.does(b.engines[0].script) // one turn for both
				}
				got := b.post("/v1/chat/completions", chat("m", false))
				if got.status != c.status || got.err != nil || c.status == 200 && got.body != chatWhole {
					t.Errorf("got %d %v %s, want %d", got.status, got.err, got.body, c.status)
				}
				if r := b.lastRecord(); r.Attempts != c.replicas {
					t.Errorf("%d attempts, want %d", r.Attempts, c.replicas)
				}
				b.wantIdle()
			})
		})
	}
}
