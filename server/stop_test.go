package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

// stuckEngine is an engine of somebody else whose cache holds 1,600 tokens and that
// answers nothing but its first request, of one token.
func stuckEngine(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, `vllm:num_requests_running{engine="0"} 0.0`)
		fmt.Fprintln(w, `vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1.0`)
	})
	mux.HandleFunc("/v1/completions", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"choices":[{"text":"x"}]}`)
	})
	mux.HandleFunc("/v1/chat/completions", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// eventually waits until something that others do is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never came to this: %s", what)
		}
	}
}

// A daemon that ends tells those who wait at the door, in the shape of their API: they
// must not find their connection closed.
func TestStopTellsThoseWhoWait(t *testing.T) {
	cfg := testConfig(t)
	cfg.Engine = &lmwardenv1.EngineConfig{DrainTimeout: durationpb.New(100 * time.Millisecond)}
	s, err := start(t, Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	models := lmwardenv1connect.NewModelServiceClient(connect.NewClient(s.Transport()))
	_, err = models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{
		Name:    "m",
		Spec:    &lmwardenv1.ModelSpec{ReplicaMode: lmwardenv1.ReplicaMode_REPLICA_MODE_REMOTE, RemoteUrls: []string{stuckEngine(t)}},
		Routing: &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_WORKING_SET},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "requests can be held", func() bool {
		v, ok := s.Proxy().View("m")
		return ok && v.Holding
	})
	type answer struct {
		status int
		text   string
		err    error
	}
	answers := make(chan answer, 2)
	ask := func(session string) {
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 1000) + `"}]}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.InferenceAddr().String()+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			answers <- answer{err: err}
			return
		}
		req.Header.Set("X-Session-Id", session)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			answers <- answer{err: err}
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		answers <- answer{resp.StatusCode, string(text), err}
	}
	go ask("one")
	eventually(t, "the first request is in flight", func() bool { v, _ := s.Proxy().View("m"); return v.InFlight == 1 })
	go ask("two")
	eventually(t, "the second one waits", func() bool { v, _ := s.Proxy().View("m"); return v.Held == 1 })
	if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	for range 2 {
		if a := <-answers; a.err != nil || a.status != http.StatusServiceUnavailable && a.status != http.StatusBadGateway || !strings.Contains(a.text, `"error"`) {
			t.Errorf("a client got %d %q, %v; want to be told", a.status, a.text, a.err)
		}
	}
}
