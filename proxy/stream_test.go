package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Frames and characters split anywhere, CRLF, comments and a last frame without its
// newline: the client gets every byte as it was sent, and the usage is right.
func TestStreamIsByteExact(t *testing.T) {
	crlf := strings.ReplaceAll(usageFrame, "\n", "\r\n")
	tools := `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"reasoning":"h\u00e9","tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":"{\"a\":"}},{"index":1,"id":"call_b","type":"function","function":{"name":"g","arguments":""}}]},"logprobs":{"content":[{"token":"x","logprob":-0.10}]},"finish_reason":null,"unknown":[1.50,1e-7]}]}` + "\n\n"
	emoji := `data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{"content":"a😀b"}}]}` + "\n\n"
	for name, answer := range map[string]string{
		"one byte per write": emoji + tools + usageFrame + doneFrame,
		"CRLF":               ": keep-alive\r\n\r\n" + strings.ReplaceAll(emoji, "\n", "\r\n") + crlf + "data: [DONE]\r\n\r\n",
		"no last newline":    emoji + usageFrame + "data: [DONE]",
		"CR":                 strings.ReplaceAll(emoji+usageFrame+doneFrame, "\n", "\r"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) {
					sendFrames(w, strings.Split(answer, ""), 0)
				})
				body := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`
				if got := b.post("/v1/chat/completions", body); got.body != answer || got.err != nil {
					t.Errorf("got %v\n%q\nwant\n%q", got.err, got.body, answer)
				}
				b.wantIdle()
				if r := b.records.all()[0]; r.Prompt != 20 || r.Cached != 16 || r.Completion != 5 {
					t.Errorf("usage: got %d/%d/%d, want 20/16/5", r.Prompt, r.Cached, r.Completion)
				}
			})
		})
	}
}

// Usage is asked for and counted, and only those clients see it that asked themselves.
func TestUsageFrameIsHidden(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		sent    string // stream_options that the engine gets
		frames  int    // with usage, at the client
		counted bool
	}{
		"not asked":            {``, `{"include_usage":true}`, 0, true},
		"asked":                {`,"stream_options":{"include_usage":true}`, `{"include_usage":true}`, 1, true},
		"refused":              {`,"stream_options":{"include_usage":false}`, `{"include_usage":false}`, 0, false},
		"other members kept":   {`,"stream_options":{"continuous_usage_stats":false}`, `"continuous_usage_stats":false`, 0, true},
		"not asked at the end": {`,"stream_options":{"continuous_usage_stats":true}`, `"include_usage":true,"continuous_usage_stats":false`, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, answers(3))
				got := b.post("/v1/chat/completions", `{"model":"m","stream":true`+c.options+`,"messages":[]}`)
				if n := strings.Count(got.body, `"usage"`); n != c.frames {
					t.Errorf("%d frames with usage, want %d", n, c.frames)
				}
				if !strings.HasSuffix(got.body, doneFrame) {
					t.Errorf("the stream does not end well: %q", got.body)
				}
				if sent := b.engines[0].requests()[0].body; !strings.Contains(sent, c.sent) {
					t.Errorf("the engine got %s", sent)
				}
				synctest.Wait()
				if r := b.records.all()[0]; (r.Completion == 5) != c.counted {
					t.Errorf("completion tokens: %d", r.Completion)
				}
			})
		})
	}
}

// An alias comes back in bodies, chunks and errors, and nothing else changes.
func TestAliasIsRestored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(2))
		for _, stream := range []bool{false, true} {
			for _, name := range []string{"alias", "claude-opus-4-8", "claude-opus-4-8[1m]"} {
				got := b.post("/v1/chat/completions", chat(name, stream))
				want := chatWhole
				if stream {
					want = strings.Join(chatChunks(2), "") + doneFrame
				}
				want = strings.ReplaceAll(want, `"model":"m"`, fmt.Sprintf(`"model":%q`, name))
				if got.body != want {
					t.Errorf("%s, stream %t: got\n%s\nwant\n%s", name, stream, got.body, want)
				}
			}
		}
		for _, r := range b.engines[0].requests() {
			if !strings.Contains(r.body, `"model":"m"`) {
				t.Errorf("the engine got %s", r.body)
			}
		}
		b.engines[0].does(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "{\"error\":{\"message\":\"`m` is too small\",\"code\":400}}")
		})
		got := b.post("/v1/chat/completions", chat("alias", false))
		if got.status != 400 || got.body != "{\"error\":{\"message\":\"`alias` is too small\",\"code\":400}}" {
			t.Errorf("error: got %d %s", got.status, got.body)
		}
	})
}

// A token every 50 ms arrives every 50 ms: nothing is kept back.
func TestTokensAreNotHeldBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) {
			frames := chatChunks(20)
			frames[1] = frames[0] + frames[1] // the role comes with the first token
			frames[21] += usageFrame + doneFrame
			sendFrames(w, frames[1:], 50*time.Millisecond)
		})
		start := time.Now()
		resp, err := b.client.Do(b.request(context.Background(), "/v1/chat/completions", chat("alias", true)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		lines, frames := bufio.NewScanner(resp.Body), 0
		for lines.Scan() {
			if !strings.HasPrefix(lines.Text(), "data:") {
				continue
			}
			frames++
			if at, want := time.Since(start), time.Duration(min(max(frames-1, 1), 21))*50*time.Millisecond; at != want {
				t.Errorf("frame %d came after %v, want %v", frames, at, want)
			}
		}
		if frames != 23 {
			t.Errorf("got %d frames, want 23", frames)
		}
		b.wantIdle()
		if r := b.records.all()[0]; r.FirstToken != 50*time.Millisecond {
			t.Errorf("first token after %v, want 50ms", r.FirstToken)
		}
	})
}

// Long silences and long streams are nothing unusual.
func TestSlowEnginesAreWaitedFor(t *testing.T) {
	for name, c := range map[string]struct {
		stream bool
		script http.HandlerFunc
	}{
		"six minutes before the headers": {false, func(w http.ResponseWriter, r *http.Request) {
			<-time.After(6 * time.Minute)
			answers(1)(w, r)
		}},
		"six minutes of prefill behind the headers": {true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-time.After(6 * time.Minute)
			_, _ = io.WriteString(w, chatChunks(1)[1]+doneFrame)
		}},
		"ten minutes, a token every 30 s": {true, func(w http.ResponseWriter, _ *http.Request) {
			sendFrames(w, append(chatChunks(20), doneFrame), 30*time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, c.script)
				got := b.post("/v1/chat/completions", chat("m", c.stream))
				if got.status != 200 || got.err != nil {
					t.Fatalf("got %d %v %s", got.status, got.err, got.body)
				}
				if c.stream && !strings.HasSuffix(got.body, doneFrame) {
					t.Errorf("the stream does not end well: %q", got.body)
				}
				b.wantIdle()
			})
		})
	}
}

// A silent prefill gets signs of life in the API's own way, and they are no tokens.
func TestSilentStreamGetsPings(t *testing.T) {
	for path, ping := range map[string]string{
		"/v1/chat/completions": ": ping\n\n",
		"/v1/messages":         "event: ping\ndata: {\"type\":\"ping\"}\n\n",
	} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) {
				<-time.After(25 * time.Second)
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n"+doneFrame)
			})
			got := b.post(path, chat("m", true))
			if n := strings.Count(got.body, ping); n != 2 || !strings.HasPrefix(got.body, ping+ping) {
				t.Errorf("%s: %d pings before the answer, want 2: %q", path, n, got.body)
			}
			if got.header.Get(headerDecision) == "" {
				t.Errorf("%s: the headers do not tell the decision", path)
			}
			synctest.Wait()
			if r := b.records.all()[0]; r.FirstToken != 25*time.Second {
				t.Errorf("%s: first token after %v, want 25s", path, r.FirstToken)
			}
		})
	}
}

// After a sign of life the headers are out: an engine's refusal becomes an event.
func TestRefusalAfterPingIsAnEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(15 * time.Second)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "{\n\"type\":\"error\",\"error\":{\"message\":\"no\"}}")
		})
		got := b.post("/v1/messages", chat("m", true))
		if got.err == nil || !strings.HasSuffix(got.body, "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n") {
			t.Errorf("got %v %q, want the event and then a broken transfer", got.err, got.body)
		}
		synctest.Wait()
		if r := b.records.all()[0]; r.Status != 400 {
			t.Errorf("recorded as %d, want 400", r.Status)
		}
	})
}

// What is no stream at all cannot follow the headers of one.
func TestTextAfterPingIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(15 * time.Second)
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>")
		})
		got := b.post("/v1/messages", chat("m", true))
		if got.err == nil || strings.Contains(got.body, "<html>") || !strings.Contains(got.body, "event: error") {
			t.Errorf("got %v %q", got.err, got.body)
		}
		b.wantIdle()
	})
}

func TestStalledStreamIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, func(w http.ResponseWriter, r *http.Request) {
			sendFrames(w, chatChunks(2), 0)
			<-r.Context().Done()
		}, func(o *Options, _ *Snapshot) { o.StallTimeout = time.Minute })
		start := time.Now()
		got := b.post("/v1/chat/completions", chat("m", true))
		if got.err == nil || !strings.HasPrefix(got.body, strings.Join(chatChunks(2), "")+`data: {"error"`) || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v %q", time.Since(start), got.err, got.body)
		}
		b.wantIdle()
	})
}

// The chunk that ends an answer waits for usage that the client did not ask for. When none
// comes the client still has that chunk, and a cut stays a cut.
func TestCutBeforeTheUsageFrameIsACut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, more := range []string{"", "data: {\"choices\":[],\"us", usageFrame} {
			b := newBox(t, 1, cutAfter(append(chatChunks(2), more)))
			got := b.post("/v1/chat/completions", chat("m", true))
			if got.err == nil || !strings.HasPrefix(got.body, strings.Join(chatChunks(2), "")+`data: {"error"`) || strings.Contains(got.body, "[DONE]") {
				t.Errorf("cut after %q: %v, %q", more, got.err, got.body)
			}
			b.wantIdle()
		}
	})
}

// A client that reads nothing cannot hold a replica for ever.
func TestClientThatNeverReadsIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, tokensUntilGone(time.Second))
		resp, _ := b.openStream(context.Background())
		<-time.After(5 * time.Minute)
		b.wantIdle()
		if n := b.engines[0].aborted(); n != 1 {
			t.Errorf("the engine lost %d clients, want 1", n)
		}
		_ = resp.Body.Close()
		synctest.Wait()
		if r := b.records.all()[0]; r.Status != statusClientGone || r.Error != errClientStuck.Error() {
			t.Errorf("recorded as %d %q, want 499", r.Status, r.Error)
		}
	})
}

// 500 open streams do not slow the next one down.
func TestManyOpenStreams(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const open = 500
		b := newBox(t, 4, tokensUntilGone(time.Second), func(_ *Options, s *Snapshot) {
			s.Models[0].Routing.SpillThreshold = 1000
		})
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var wg sync.WaitGroup
		for i := range open {
			wg.Go(func() { b.openStream(ctx, session(fmt.Sprintf("conversation-number-%d", i))...) })
		}
		wg.Wait()
		start := time.Now()
		b.openStream(ctx)
		if took := time.Since(start); took != 0 {
			t.Errorf("the next stream waited %v", took)
		}
		for _, r := range b.snapshot.Models[0].Replicas {
			if n := b.proxy.InFlight(r.ID); n < open/4 || n > open/4+1 {
				t.Errorf("%s has %d in flight, want a quarter of %d", r.ID, n, open)
			}
		}
		cancel()
		b.wantIdle()
	})
}
