package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/proxy/route"
)

// What makes no tokens passes through as it is but for the model's name: the body to the
// engine, the answer to the client. It belongs to no conversation and makes none, whatever
// id it carries, and what the engine counted is recorded.
func TestOtherSurfacesPassThrough(t *testing.T) {
	const answer = `{ "model" : "m", "data":[{"index":0,"score":0.5e-3}], "usage":{"prompt_tokens":12,"total_tokens":12} }`
	for _, path := range []string{
		"/v1/embeddings", "/v1/rerank", "/v2/rerank", "/rerank", "/v1/score", "/score",
		"/tokenize", "/detokenize", "/v1/messages/count_tokens", "/v1/audio/speech",
	} {
		bubble(t, func(t *testing.T) {
			b := newBox(t, 2, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, answer)
			})
			body := `{ "input" : ["é\u00e9", 1e3], "model":"%s", "truncate_prompt_tokens": -1 , "x":{"model":"alias"}}`
			got := b.post(path+"?a=b", fmt.Sprintf(body, "alias"), session("the-conversation-of-the-test")...)
			if got.status != 200 || got.body != strings.Replace(answer, `"m"`, `"alias"`, 1) {
				t.Errorf("%s: got %d %s", path, got.status, got.body)
			}
			var seen []seenRequest
			for _, e := range b.engines {
				seen = append(seen, e.requests()...)
			}
			if len(seen) != 1 || seen[0].uri != path+"?a=b" || seen[0].body != fmt.Sprintf(body, "m") {
				t.Errorf("%s: the engine got %+v", path, seen)
			}
			b.wantIdle()
			v, _ := b.proxy.View("m")
			r := b.lastRecord()
			if v.Conversations != 0 || r.Decision.Class != route.ClassSide || r.Path != path || r.FirstToken != 0 {
				t.Errorf("%s: %d conversations, record %+v", path, v.Conversations, r)
			}
			if path != "/v1/messages/count_tokens" && r.Prompt != 12 {
				t.Errorf("%s: %d tokens are recorded, want 12", path, r.Prompt)
			}
		})
	}
}
