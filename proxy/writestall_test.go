package proxy

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// bigAnswer answers with one JSON document of so many bytes and more.
func bigAnswer(size int) http.HandlerFunc {
	text := `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("x", size) + `"}}]}`
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = io.WriteString(w, text)
	}
}

// TestSlowClientIsNotStuck takes an answer much more slowly than the limit on one
// stall, but never stands still for as long.
func TestSlowClientIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		b := newBox(t, 1, bigAnswer(size))
		resp, err := b.client.Do(b.request(context.Background(), "/v1/chat/completions", chat("m", false)))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		began, got, buf := time.Now(), 0, make([]byte, 32<<10)
		for {
			n, err := io.ReadFull(resp.Body, buf)
			got += n
			if err == io.EOF || err == io.ErrUnexpectedEOF && int64(got) == resp.ContentLength {
				break
			}
			if err != nil {
				t.Fatalf("after %d bytes and %v: %v", got, time.Since(began), err)
			}
			time.Sleep(20 * time.Second) // fake time: the client thinks
		}
		if got < size || time.Since(began) < 10*time.Minute {
			t.Errorf("got %d bytes in %v; the test is not slow", got, time.Since(began))
		}
		b.wantIdle()
	})
}

// TestStuckClientLetsGo has a client that stops reading, and measures how long its
// place is held from its last progress on.
func TestStuckClientLetsGo(t *testing.T) {
	tests := map[string]struct {
		script http.HandlerFunc
		body   string
		read   int // bytes taken before it stops
	}{
		"a stream from its beginning": {tokensUntilGone(50 * time.Millisecond), chat("m", true), 0},
		"a stream later on":           {tokensUntilGone(50 * time.Millisecond), chat("m", true), 20_000},
		"a whole answer":              {bigAnswer(1 << 20), chat("m", false), 0},
		"a whole answer half way":     {bigAnswer(1 << 20), chat("m", false), 500_000},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBox(t, 1, test.script)
				resp, err := b.client.Do(b.request(context.Background(), "/v1/chat/completions", test.body))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = resp.Body.Close() }()
				if _, err := io.ReadFull(resp.Body, make([]byte, test.read)); err != nil {
					t.Fatal(err)
				}
				stopped := time.Now()
				for b.inFlight() > 0 && time.Since(stopped) < 10*time.Minute {
					time.Sleep(time.Second)
					synctest.Wait()
				}
				// The connection has a buffer of some kilobytes, which a stream takes a while to fill.
				if held := time.Since(stopped); held < 50*time.Second || held > 66*time.Second {
					t.Errorf("the place was held for %v; want about a minute", held)
				}
				b.wantIdle()
				if r := b.records.all(); len(r) != 1 || r[0].Status != statusClientGone {
					t.Errorf("records %+v, want one of a client that is gone", r)
				}
			})
		})
	}
}
