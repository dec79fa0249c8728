package vllmd

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// server answers HTTP. It is the part of the process that clients see.
type server struct {
	opt         options
	maxModelLen int
	version     string
	release     release
	cfg         engine.Config
	cores       []*core
	fronts      *fronts
	speed       float64
	faults      *faults
	log         *logger
	started     time.Time
	fingerprint string
	layout      string // behind the version in an answer's fingerprint, "-dp2"
	handler     http.Handler
	http        httpFigures

	dead atomic.Bool  // the engine has gone: /health is 503
	busy atomic.Int64 // requests for tokens in progress, for /load
}

// serves is true for a name of the model.
func (s *server) serves(name string) bool {
	return name == "" || slices.Contains(s.opt.served, name)
}

// route is one path of the surface.
type route struct {
	path    string
	methods []string
	serve   http.HandlerFunc
}

// routes lists the surface. The order is that of the log.
func (s *server) routes() []route {
	get, post := []string{http.MethodGet}, []string{http.MethodPost}
	return []route{
		{"/load", get, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, fmt.Appendf(nil, `{"server_load":%d}`, s.busy.Load()))
		}},
		{"/version", get, func(w http.ResponseWriter, _ *http.Request) {
			writeJSON(w, http.StatusOK, []byte(`{"version":"`+s.version+`"}`))
		}},
		{"/health", get, s.health},
		{"/metrics", get, s.metrics},
		{"/tokenize", post, s.tokenizeText},
		{"/detokenize", post, s.detokenizeIDs},
		{"/v1/models", get, s.models},
		{"/ping", []string{http.MethodGet, http.MethodPost}, s.health},
		{"/v1/chat/completions", post, s.chat},
		{"/v1/chat/completions/render", post, s.scaleOut(s.renderChat)},
		{"/v1/responses", post, s.responses},
		{"/v1/responses/{response_id}", get, s.noResponse},
		{"/v1/responses/{response_id}/cancel", post, s.noResponse},
		{"/v1/completions", post, s.completions},
		{"/v1/completions/render", post, s.scaleOut(s.renderCompletion)},
		{"/v1/messages", post, s.messages},
		{"/v1/messages/count_tokens", post, s.countTokens},
	}
}

// newHandler builds the surface with its checks around it.
func (s *server) newHandler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		mux.HandleFunc(r.path, func(w http.ResponseWriter, q *http.Request) {
			if !slices.Contains(r.methods, q.Method) {
				w.Header().Set("Allow", strings.Join(r.methods, ", "))
				writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
				return
			}
			r.serve(w, q)
		})
	}
	mux.HandleFunc("/sim/fault", s.faults.serve)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeDetail(w, http.StatusNotFound, "Not Found")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		rec.Header().Set("Server", "uvicorn")
		rec.Header().Set("Vary", "Origin")
		if s.opt.echoIDs {
			s.echoID(rec.Header(), r)
		}
		switch {
		case s.faults.has(faultHang) && r.URL.Path != "/sim/fault":
			// Only once the body is read does the server see that a client goes away.
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
			return
		case !s.authorized(r):
			writeJSON(rec, http.StatusUnauthorized, []byte(`{"error":"Unauthorized"}`))
		default:
			mux.ServeHTTP(rec, r)
		}
		_, pattern := mux.Handler(r)
		s.http.add(pattern, r, rec, time.Since(begun))
		s.access(r, rec.status)
	})
}

// authorized checks the key of the paths that need one.
func (s *server) authorized(r *http.Request) bool {
	if len(s.opt.apiKeys) == 0 || r.Method == http.MethodOptions || !guarded(r.URL.Path) {
		return true
	}
	key, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && slices.Contains(s.opt.apiKeys, key)
}

// guarded says whether a path asks for a key; all others are open, even /metrics.
func guarded(path string) bool {
	return slices.ContainsFunc([]string{"/v1", "/v2", "/inference"}, func(start string) bool { return strings.HasPrefix(path, start) })
}

// access writes uvicorn's line for a request.
func (s *server) access(r *http.Request, status int) {
	if !s.opt.accessLog || slices.Contains(s.opt.quietPaths, r.URL.Path) {
		return
	}
	s.log.plain(fmt.Sprintf(`INFO:     %s - "%s %s HTTP/1.1" %d %s`, r.RemoteAddr, r.Method, r.URL.RequestURI(), status, http.StatusText(status)))
}

// recorder remembers the status and the size of an answer.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	n, err := r.ResponseWriter.Write(p)
	r.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
	if s.dead.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (s *server) models(w http.ResponseWriter, _ *http.Request) {
	type permission struct {
		ID                 string `json:"id"`
		Object             string `json:"object"`
		Created            int64  `json:"created"`
		AllowCreateEngine  bool   `json:"allow_create_engine"`
		AllowSampling      bool   `json:"allow_sampling"`
		AllowLogprobs      bool   `json:"allow_logprobs"`
		AllowSearchIndices bool   `json:"allow_search_indices"`
		AllowView          bool   `json:"allow_view"`
		AllowFineTuning    bool   `json:"allow_fine_tuning"`
		Organization       string `json:"organization"`
		Group              any    `json:"group"`
		IsBlocking         bool   `json:"is_blocking"`
	}
	type card struct {
		ID          string       `json:"id"`
		Object      string       `json:"object"`
		Created     int64        `json:"created"`
		OwnedBy     string       `json:"owned_by"`
		Root        string       `json:"root"`
		Parent      any          `json:"parent"`
		MaxModelLen int          `json:"max_model_len"`
		Permission  []permission `json:"permission"`
	}
	now := time.Now().Unix()
	cards := make([]card, 0, len(s.opt.served))
	for _, name := range s.opt.served {
		cards = append(cards, card{
			ID: name, Object: "model", Created: now, OwnedBy: "vllm", Root: s.opt.model, MaxModelLen: s.maxModelLen,
			Permission: []permission{{
				ID: "modelperm-" + s.fingerprint, Object: "model_permission", Created: now,
				AllowSampling: true, AllowLogprobs: true, AllowView: true, Organization: "*",
			}},
		})
	}
	writeJSON(w, http.StatusOK, mustJSON(struct {
		Object string `json:"object"`
		Data   []card `json:"data"`
	}{"list", cards}))
}

// noResponse answers for stored responses: none are stored.
func (s *server) noResponse(w http.ResponseWriter, r *http.Request) {
	e := &apiError{http.StatusNotFound, "invalid_request_error", fmt.Sprintf("Response with id '%s' not found.", r.PathValue("response_id")), "response_id"}
	writeJSON(w, e.status, e.openAI())
}
