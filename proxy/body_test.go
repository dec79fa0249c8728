package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// All bodies together are bounded: one that finds no room is refused in the API's own
// shape, and finds it when another answer has begun.
func TestBodiesTogetherAreBounded(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/chat/completions": `"type":"ServiceUnavailableError"`,
		"/v1/messages":         `"type":"overloaded_error"`,
	} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 1, silentUntilGone, func(o *Options, _ *Snapshot) {
				o.MaxBodyBytes = 100_000
				o.MaxBufferedBytes = 250_000
			})
			large := `{"model":"m","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("x", 95_000) + `"}]}`
			ctx, leave := context.WithCancel(context.Background())
			for range 2 {
				go b.do(b.request(ctx, path, large))
			}
			synctest.Wait()
			got := b.post(path, large)
			if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "5" || !strings.Contains(got.body, want) {
				t.Errorf("%s: got %d %q %s", path, got.status, got.header.Get("Retry-After"), got.body)
			}
			leave()
			synctest.Wait()
			// An open answer keeps no body.
			b.engines[0].does(tokensUntilGone(time.Second))
			ctx, leave = context.WithCancel(context.Background())
			for range 20 {
				resp, err := b.client.Do(b.request(ctx, path, large))
				if err != nil || resp.StatusCode != 200 {
					t.Fatalf("%s: %v", path, err)
				}
				go func() { _, _ = io.Copy(io.Discard, resp.Body) }()
			}
			if n := b.proxy.bodies.used.Load(); n != 0 {
				t.Errorf("%s: open streams keep %d bytes of bodies", path, n)
			}
			leave()
			b.wantIdle()
		})
	}
}

// A body that comes byte by byte is not waited for without end.
func TestDrippingBodyIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		c, err := b.net.dial(context.Background(), "tcp", "proxy:80")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = fmt.Fprint(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: proxy\r\nContent-Length: 100000\r\n\r\n")
		stop := make(chan struct{})
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(29 * time.Second):
					if _, err := c.Write([]byte("x")); err != nil {
						return
					}
				}
			}
		}()
		start := time.Now()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); resp.StatusCode != http.StatusRequestTimeout || took > 11*time.Minute {
			t.Errorf("got %d after %v, want 408 after 10 minutes", resp.StatusCode, took)
		}
		close(stop)
		_ = c.Close()
		<-dripped
		synctest.Wait()
		if n := b.proxy.bodies.used.Load(); n != 0 {
			t.Errorf("%d bytes of bodies are left", n)
		}
	})
}

// Whatever length is stated or not, the body arrives whole.
func TestBodyArrivesWhole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		for _, size := range []int{0, 1, 400, 511, 512, 513, 5000, firstBodyBuffer - 1, firstBodyBuffer, firstBodyBuffer + 1, 5 << 20} {
			body := `{"model":"m","messages":[],"pad":"` + strings.Repeat("x", size) + `"}`
			for _, stated := range []bool{true, false} {
				r := b.request(context.Background(), "/v1/chat/completions", body)
				if !stated {
					r.ContentLength = -1
				}
				if got := b.do(r); got.status != 200 {
					t.Fatalf("%d bytes: got %d %s", len(body), got.status, got.body)
				}
				seen := b.engines[0].requests()
				if last := seen[len(seen)-1].body; last != body {
					t.Errorf("%d bytes, stated %t: the engine got %d", len(body), stated, len(last))
				}
			}
		}
		synctest.Wait()
		if n := b.proxy.bodies.used.Load(); n != 0 {
			t.Errorf("%d bytes of bodies are left", n)
		}
	})
}
