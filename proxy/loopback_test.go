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
func overTCP(t *testing.T, engine http.HandlerFunc) (front string, client *http.Client, records *memRecorder) {
	t.Helper()
	back := httptest.NewServer(engine)
	t.Cleanup(back.Close)
	records = &memRecorder{}
	p := New(Options{Recorder: records})
	t.Cleanup(p.Close)
	p.Apply(&Snapshot{Models: []Model{{Name: "m", Routing: route.DefaultSettings(), Replicas: []Replica{
		{ID: "m/0", URL: back.URL, Rank: -1, Route: route.Replica{Incarnation: 1, Ready: true}},
	}}}})
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return server.URL, &http.Client{Transport: transport}, records
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

// An engine whose socket is reset in the middle of a stream.
func TestResetMidStream(t *testing.T) {
	front, client, _ := overTCP(t, func(w http.ResponseWriter, _ *http.Request) {
		sendFrames(w, chatChunks(2)[:3], 0)
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	})
	body, err := io.ReadAll(postTo(context.Background(), t, client, front).Body)
	// A reset may overtake the frames before it, so that only the error is certain.
	if err == nil && !strings.Contains(string(body), `"error"`) {
		t.Errorf("the stream ended cleanly: %q", body)
	}
	if strings.Contains(string(body), "[DONE]") {
		t.Errorf("the stream looks complete: %q", body)
	}
}

// A client whose socket closes stops the engine.
func TestClientSocketClosed(t *testing.T) {
	stopped := make(chan struct{})
	front, client, _ := overTCP(t, func(w http.ResponseWriter, r *http.Request) {
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
}
