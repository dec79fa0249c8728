package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// overTCP starts a proxy in front of one engine, both on loopback: what sockets do
// cannot be shown in memory.
func overTCP(t *testing.T, protocols *http.Protocols, engine http.HandlerFunc, change ...func(*Options)) (front string, client *http.Client, records *memRecorder) {
	t.Helper()
	back := httptest.NewServer(engine)
	t.Cleanup(back.Close)
	records = &memRecorder{}
	o := Options{Recorder: records}
	for _, f := range change {
		f(&o)
	}
	p := New(o)
	t.Cleanup(p.Close)
	p.Apply(&Snapshot{Models: []Model{{Name: "m", Routing: route.DefaultSettings(), Replicas: []Replica{
		{ID: "m/0", URL: back.URL, Rank: -1, Route: route.Replica{Incarnation: 1, Ready: true}},
	}}}})
	server := httptest.NewUnstartedServer(p)
	server.Config.Protocols = protocols
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return server.URL, &http.Client{Transport: transport}, records
}

// over returns a set of one protocol, spoken without TLS.
func over(version int) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(version == 1)
	p.SetUnencryptedHTTP2(version == 2)
	return p
}

// bothVersions runs a test over HTTP/1.1 and over HTTP/2.
func bothVersions(t *testing.T, f func(t *testing.T, protocols *http.Protocols)) {
	t.Helper()
	t.Run("HTTP/1.1", func(t *testing.T) { f(t, over(1)) })
	t.Run("HTTP/2", func(t *testing.T) { f(t, over(2)) })
}

// postTo sends a streaming chat request.
func postTo(ctx context.Context, t *testing.T, client *http.Client, front string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, front+"/v1/chat/completions", strings.NewReader(chat("m", true)))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// A stream arrives whole, with our headers.
func TestStreamOverSockets(t *testing.T) {
	bothVersions(t, func(t *testing.T, protocols *http.Protocols) {
		front, client, _ := overTCP(t, protocols, answers(5))
		resp := postTo(context.Background(), t, client, front)
		body, err := io.ReadAll(resp.Body)
		if want := strings.Join(chatChunks(5), "") + doneFrame; err != nil || string(body) != want {
			t.Errorf("got %v %q", err, body)
		}
		if resp.Header.Get(headerReplica) != "m/0" {
			t.Errorf("headers: %v", resp.Header)
		}
	})
}

// An engine whose socket is reset in the middle of a stream.
func TestResetMidStream(t *testing.T) {
	bothVersions(t, func(t *testing.T, protocols *http.Protocols) {
		front, client, _ := overTCP(t, protocols, func(w http.ResponseWriter, _ *http.Request) {
			sendFrames(w, chatChunks(2)[:3], 0)
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = c.Close()
		})
		resp := postTo(context.Background(), t, client, front)
		body, err := io.ReadAll(resp.Body)
		// A reset may overtake the frames before it: then there is no stream to break.
		if resp.StatusCode == http.StatusOK && err == nil {
			t.Errorf("the stream ended cleanly: %q", body)
		}
		if !strings.Contains(string(body), `"error"`) || strings.Contains(string(body), "[DONE]") {
			t.Errorf("the client is not told: %q", body)
		}
	})
}

// A client that leaves stops the engine.
func TestClientSocketClosed(t *testing.T) {
	bothVersions(t, func(t *testing.T, protocols *http.Protocols) {
		stopped := make(chan struct{})
		front, client, _ := overTCP(t, protocols, func(w http.ResponseWriter, r *http.Request) {
			defer close(stopped)
			sendFrames(w, chatChunks(1), 0)
			<-r.Context().Done()
		})
		ctx, cancel := context.WithCancel(context.Background())
		resp := postTo(ctx, t, client, front)
		if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-stopped
	})
}

// A body over the limit is refused so that the client can read it, though it is still
// sending: the body is more than the buffers between two sockets hold. It is not larger,
// for what is refused is read for a few seconds only, and the machine may be busy.
func TestTooLargeOverSockets(t *testing.T) {
	const limit, size = 1 << 20, 16 << 20
	bothVersions(t, func(t *testing.T, protocols *http.Protocols) {
		front, client, _ := overTCP(t, protocols, answers(1), func(o *Options) { o.MaxBodyBytes = limit })
		for range 5 {
			resp, err := client.Post(front+"/v1/messages", "application/json", strings.NewReader(strings.Repeat(" ", size)))
			if err != nil {
				t.Fatalf("the refusal cannot be read: %v", err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), "request_too_large") {
				t.Errorf("got %d %v %s", resp.StatusCode, err, body)
			}
		}
	})
}
