package vllmd

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
)

// tokenRequest reads the body of an endpoint that counts tokens and makes none.
func (s *server) tokenRequest(w http.ResponseWriter, r *http.Request, required ...string) (body, bool) {
	b, err := readBody(r, required...)
	if err == nil {
		err = s.known(b.Model)
	}
	if err != nil {
		refuseCall(w, chatFormat{}, err)
	}
	return b, err == nil
}

func (s *server) tokenizeText(w http.ResponseWriter, r *http.Request) {
	b, ok := s.tokenRequest(w, r)
	if !ok {
		return
	}
	var ids []uint32
	if b.Messages != nil {
		ids = render(chatMessages(b.Messages), toolText(b.Tools))
	} else {
		text, _ := readContent(b.Prompt)
		ids = tokenize([]uint32{}, text)
	}
	var texts []string
	if b.ReturnTexts {
		for _, id := range ids {
			// The marks by which tokenizers show spaces and ends of lines.
			texts = append(texts, strings.NewReplacer(" ", "\u0120", "\n", "\u010a").Replace(spell(id)))
		}
	}
	writeJSON(w, http.StatusOK, mustJSON(struct {
		Count       int      `json:"count"`
		MaxModelLen int      `json:"max_model_len"`
		Tokens      []uint32 `json:"tokens"`
		TokenStrs   []string `json:"token_strs"`
	}{len(ids), s.maxModelLen, ids, texts}))
}

func (s *server) detokenizeIDs(w http.ResponseWriter, r *http.Request) {
	b, ok := s.tokenRequest(w, r, "tokens")
	if !ok {
		return
	}
	writeJSON(w, http.StatusOK, mustJSON(struct {
		Prompt string `json:"prompt"`
	}{detokenize(b.Tokens)}))
}

// scaleOut closes an endpoint unless its flag has opened it, in releases that have the
// flag; in the others it is open.
func (s *server) scaleOut(serve http.HandlerFunc) http.HandlerFunc {
	if s.opt.scaleOut || !s.release.knowsFlag("enable-scale-out") {
		return serve
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		e := &apiError{http.StatusForbidden, "PermissionDeniedError", "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.", ""}
		writeJSON(w, e.status, e.openAI())
	}
}

// echoID sends the client's request id back, or one of our own.
func (s *server) echoID(h http.Header, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	if id == "" {
		id = fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64())
	}
	h.Set("X-Request-Id", id)
}
