package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lastRecord returns the record of the request that ended last.
func (b *box) lastRecord() Record {
	synctest.Wait()
	all := b.records.all()
	return all[len(all)-1]
}

// An engine that dies within the first second of a request on a kept connection looks as
// if it had only closed the connection. When nobody answers there any more the request
// goes to another replica.
func TestEngineDiesYoungOnKeptConnection(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		first := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...)
		home := b.engines[0]
		if first.header.Get(headerReplica) == "m/1" {
			home = b.engines[1]
		}
		home.does(func(_ http.ResponseWriter, r *http.Request) {
			go home.kill()
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		})
		got := b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...)
		if got.status != 200 || got.header.Get(headerReplica) == first.header.Get(headerReplica) {
			t.Errorf("got %d from %s: %s", got.status, got.header.Get(headerReplica), got.body)
		}
		if r := b.lastRecord(); r.Attempts != 3 {
			t.Errorf("%d attempts, want 3: there, a dial that failed, elsewhere", r.Attempts)
		}
		b.wantIdle()
	})
}

// The client's promise that a request may be repeated is not the transport's to use:
// every sending is one of our attempts.
func TestIdempotencyKeyMakesNoAttemptOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 2, answers(1))
		b.post("/v1/chat/completions", chat("m", false), session("conversation-number-one")...)
		for _, e := range b.engines {
			e.does(breaks)
		}
		got := b.post("/v1/chat/completions", chat("m", false), append(session("conversation-number-one"), "Idempotency-Key", "k", "X-Idempotency-Key", "k")...)
		sent := len(b.engines[0].requests()) + len(b.engines[1].requests()) - 1
		if r := b.lastRecord(); got.status != http.StatusBadGateway || sent != 2 || r.Attempts != 2 {
			t.Errorf("got %d; %d were sent and %d recorded, want 502, 2 and 2", got.status, sent, r.Attempts)
		}
	})
}

// raw answers with these bytes and closes the connection.
func raw(t *testing.T, answer string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, answer)
		_ = c.Close()
	}
}

// A stream without a length ends with its connection, so its end proves nothing: without
// the end marker of its surface it was cut.
func TestStreamWithoutEndMarkerWasCut(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
	for path, frames := range map[string]string{
		"/v1/chat/completions": strings.Join(chatChunks(3), ""),
		"/v1/completions":      chatChunks(3)[1] + "data: {\"half",
		"/v1/messages":         "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n",
		"/v1/responses":        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\"}}\n\n",
	} {
		for _, model := range []string{"m", "alias"} {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, raw(t, head+frames))
				got := b.post(path, chat(model, true))
				if got.err == nil || !strings.Contains(got.body, `The replica closed the connection`) || strings.Contains(got.body, "[DONE]") {
					t.Errorf("%s of %s: got %v %q", path, model, got.err, got.body)
				}
				if r := b.lastRecord(); r.Status != http.StatusBadGateway {
					t.Errorf("%s of %s: recorded as %d %q", path, model, r.Status, r.Error)
				}
				b.wantIdle()
			})
		}
	}
}

// An engine's own error ends a stream, with an end marker or without.
func TestStreamThatEndsWithAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		frame := "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n"
		b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) { sendFrames(w, []string{frame}, 0) })
		if got := b.post("/v1/messages", chat("m", true)); got.err != nil || got.body != frame {
			t.Errorf("got %v %q, want the engine's own words", got.err, got.body)
		}
	})
}

// abortsAll answers as an engine does that is being stopped: status 200, and nothing.
func abortsAll(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"c1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"abort"}],"usage":{"prompt_tokens":20,"completion_tokens":0}}`)
		return
	}
	last := `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":""},"finish_reason":"abort"}]}` + "\n\n"
	sendFrames(w, []string{chatChunks(0)[0], last, doneFrame}, 10*time.Millisecond)
}

// An engine that is being stopped answers new requests 200 with finish_reason "abort" and
// no token. Nobody asked for that: the request goes to another replica, and where there
// is none the client sees what the engine said.
func TestAnswerThatAbortsAtOnce(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for replicas, want := range map[int]string{1: `"abort"`, 2: `"stop"`} {
			bubble(t, func(t *testing.T) {
				b := newBox(t, replicas, once(abortsAll, answers(2)))
				for _, e := range b.engines[1:] {
					e.does(b.engines[0].script) // one turn for all
				}
				got := b.post("/v1/chat/completions", chat("m", stream))
				if got.status != 200 || got.err != nil || !strings.Contains(got.body, `"finish_reason":`+want) {
					t.Errorf("stream %t, %d replicas: got %d %v %s", stream, replicas, got.status, got.err, got.body)
				}
				if r := b.lastRecord(); r.Attempts != replicas {
					t.Errorf("stream %t, %d replicas: %d attempts", stream, replicas, r.Attempts)
				}
				<-time.After(time.Second) // the engine that was left sends its end
				b.wantIdle()
			})
		}
	}
}

// abortsMessage answers as vLLM does that is being stopped: no content, no tokens.
func abortsMessage(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"message","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":9,"output_tokens":0}}`)
		return
	}
	sendFrames(w, []string{
		"event: message_start\n" + `data: {"type":"message_start","message":{"model":"m","content":[],"usage":{"input_tokens":9,"output_tokens":0}}}` + "\n\n",
		"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":null},"usage":{"input_tokens":9,"output_tokens":0}}` + "\n\n",
		"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n",
	}, 10*time.Millisecond)
}

// answersMessage is an engine that answers a message well.
func answersMessage(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if !bytes.Contains(body, []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"message","model":"m","content":[{"type":"text","text":"well"}],"stop_reason":"end_turn","usage":{"input_tokens":9,"output_tokens":2}}`)
		return
	}
	sendFrames(w, []string{
		"event: message_start\n" + `data: {"type":"message_start","message":{"model":"m","content":[],"usage":{"input_tokens":9,"output_tokens":0}}}` + "\n\n",
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"well"}}` + "\n\n",
		"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":9,"output_tokens":2}}` + "\n\n",
		"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n",
	}, 10*time.Millisecond)
}

// respond is an engine that answers on the responses surface, with a text or, when it is
// empty, aborted. The announcement repeats the instructions and is long.
func respond(text string, tokens int) http.HandlerFunc {
	response := func(status, output, usage string) string {
		return fmt.Sprintf(`{"id":"resp_1","object":"response","model":"m","status":%q,"instructions":%q,"output":[%s],"usage":%s}`,
			status, strings.Repeat("instructions ", 3000), output, usage)
	}
	output := ""
	if text != "" {
		output = `{"type":"message","content":[{"type":"output_text","text":"` + text + `"}]}`
	}
	whole := response("completed", output, fmt.Sprintf(`{"input_tokens":9,"output_tokens":%d}`, tokens))
	event := func(kind, rest string) string {
		return "event: " + kind + "\n" + `data: {"type":"` + kind + `",` + rest + "}\n\n"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, whole)
			return
		}
		frames := []string{
			event("response.created", `"response":`+response("in_progress", "", "null")),
			event("response.in_progress", `"response":`+response("in_progress", "", "null")),
		}
		if text != "" {
			frames = append(frames, event("response.output_text.delta", `"delta":"`+text+`"`))
		}
		sendFrames(w, append(frames, event("response.completed", `"response":`+whole)), 10*time.Millisecond)
	}
}

// The surfaces that have no word for an abort are moved on too, also behind a long
// announcement; where there is nobody else the client sees what the engine said.
func TestAnswerThatIsEmptyAtOnce(t *testing.T) {
	for path, c := range map[string]struct{ empty, well http.HandlerFunc }{
		"/v1/messages":  {abortsMessage, answersMessage},
		"/v1/responses": {respond("", 0), respond("well", 2)},
	} {
		for _, stream := range []bool{false, true} {
			for replicas := 1; replicas <= 2; replicas++ {
				bubble(t, func(t *testing.T) {
					b := newBox(t, replicas, once(c.empty, c.well))
					for _, e := range b.engines[1:] {
						e.does(b.engines[0].script) // one turn for all
					}
					got := b.post(path, fmt.Sprintf(`{"model":"m","stream":%t,"input":"hi","messages":[{"role":"user","content":"hi"}]}`, stream))
					if got.status != 200 || got.err != nil || strings.Contains(got.body, "well") != (replicas == 2) {
						t.Errorf("%s, stream %t, %d replicas: got %d %v %.300s", path, stream, replicas, got.status, got.err, got.body)
					}
					if r := b.lastRecord(); r.Attempts != replicas {
						t.Errorf("%s, stream %t, %d replicas: %d attempts", path, stream, replicas, r.Attempts)
					}
					<-time.After(time.Second) // the engine that was left sends its end
					b.wantIdle()
				})
			}
		}
	}
}
