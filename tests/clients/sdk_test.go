//go:build clients

package clients

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

// sdkScript is what the engines answer to the programs under sdk.
func sdkScript(q *question) reply {
	fault := `{"error":{"message":"The engine does not like it.","type":"BadRequestError","param":null,"code":400}}`
	if strings.HasPrefix(q.path, "/v1/messages") {
		fault = `{"type":"error","error":{"type":"invalid_request_error","message":"The engine does not like it."}}`
	}
	switch {
	case q.has("WEATHER"):
		return reply{Text: "Let me see.", Tool: "weather", Args: object{"city": "Zürich"}}
	case q.has("it is sunny"):
		return reply{Text: "Sunny in Zürich ☀."}
	case q.has("BAD"):
		return reply{Status: http.StatusBadRequest, Fault: fault}
	case q.has("BUSY") && q.header.Get("X-Stainless-Retry-Count") == "0":
		return reply{Status: http.StatusTooManyRequests, Fault: fault, wait: "1"}
	case q.has("FAILING") && q.header.Get("X-Stainless-Retry-Count") == "0":
		return reply{Status: http.StatusInternalServerError, Fault: fault}
	case q.has("CUT"):
		return reply{Text: "Half", stall: cutInStream}
	case q.has("SILENT"):
		return reply{stall: stallAtOnce}
	case q.has("HALF"):
		return reply{Text: "Half", stall: stallInStream}
	}
	return reply{Text: "Hello ☀."}
}

func TestSDKs(t *testing.T) {
	b := newBox(t)
	b.play(sdkScript)
	common := object{
		"call":  object{"name": "weather", "arguments": object{"city": "Zürich"}},
		"text":  "Sunny in Zürich ☀.",
		"usage": []any{float64(promptTokens), float64(cachedTokens), float64(completionTokens)},
		"whole": "Hello ☀.", "fault": []any{400.0, "The engine does not like it."}, "late": true, "half": "Half",
		"again": "Hello ☀.", "recovered": "Hello ☀.", "cut": []any{"Half", true}, "aborted": "Half",
	}
	openai := object{"unasked": 0.0, "response": "Hello ☀.", "streamed": "completed"}
	anthropic := object{"counted": float64(promptTokens)}
	// The turns of the conversation with a tool, then those that name theirs. Under one name
	// there are fewer than eight beginnings, or it would not be believed.
	openaiTurns := append([]string{"placed tool", "sticky tool", "placed named"}, slices.Repeat([]string{"sticky named"}, 11)...)
	anthropicTurns := append([]string{"placed tool", "sticky tool", "placed named"}, slices.Repeat([]string{"sticky named"}, 8)...)
	weather := map[string]string{}
	python := filepath.Join(clients(t), "python/bin/python")
	for _, sdk := range []struct {
		program, file string
		more          object
		turns         []string
	}{
		{"node", "openai.mjs", openai, openaiTurns},
		{"node", "anthropic.mjs", anthropic, anthropicTurns},
		{python, "openai_sdk.py", openai, openaiTurns},
		{python, "anthropic_sdk.py", anthropic, anthropicTurns},
	} {
		t.Run(sdk.file, func(t *testing.T) {
			file, err := filepath.Abs(filepath.Join("sdk", sdk.file))
			if err != nil {
				t.Fatal(err)
			}
			// The weather of all four begins with the same words and without an id: they are
			// four conversations all the same.
			out := program(t, command(t, newPlace(t), nil, sdk.program, file, b.tap.URL, "gpt-of-"+sdk.file, "conversation-of-"+sdk.file))
			want := object{}
			for _, part := range []object{common, sdk.more} {
				for k, v := range part {
					want[k] = v
				}
			}
			var got object
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%s printed %q: %v", sdk.file, out, err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s saw something else (-want +got):\n%s", sdk.file, d)
			}
			turns := b.turns(t)
			first := b.expect(t, cast{"tool": "chain", "named": "x-session-id"}, answered(turns), sdk.turns...)
			if other := weather[first["tool"].GetConversation()]; other != "" {
				t.Errorf("the conversations of %s and %s are told as one", other, sdk.file)
			}
			weather[first["tool"].GetConversation()] = sdk.file
			b.recorded(t, strings.Replace(sdk.file, ".", "-", 1))
			b.kept = nil
			b.left(t, sdk.file)
		})
	}
}

// answered leaves out what no engine answered, because the client did not wait for it.
func answered(all []exchange) []exchange {
	var out []exchange
	for _, x := range all {
		if x.engine != nil {
			out = append(out, x)
		}
	}
	return out
}

// left checks what became of the requests whose client did not wait: the engines know,
// the history says so, and nothing is in flight any more.
func (b *box) left(t *testing.T, client string) {
	t.Helper()
	var retries []string
	for _, kept := range b.forget() {
		silent := strings.Contains(string(kept.body), "SILENT")
		if !silent && !strings.Contains(string(kept.body), "HALF") {
			continue
		}
		if silent {
			retries = append(retries, kept.header.Get("X-Stainless-Retry-Count"))
		}
		select {
		case <-kept.aborted:
		case <-time.After(30 * time.Second):
			t.Errorf("%s left, but its request to %s still runs in the engine", client, kept.uri)
		}
	}
	if d := cmp.Diff([]string{"0", "1"}, retries); d != "" {
		t.Errorf("the retries of %s reached the engines otherwise (-want +got):\n%s", client, d)
	}
	harness.Within(t, 30*time.Second, func() error {
		if err := b.Idle(t.Context(), model); err != nil {
			return err
		}
		history, err := b.Stats.ListRequests(t.Context(), &lmwardenv1.ListRequestsRequest{Model: model, PageSize: 1000})
		if err != nil {
			return err
		}
		gone := 0
		for _, r := range history.GetRequests() {
			if r.GetRequestedModel() == "gpt-of-"+client && r.GetStatus() == 499 {
				gone++
			}
		}
		if gone != 4 {
			return fmt.Errorf("the history has %d requests of %s that it left, want 4", gone, client)
		}
		return nil
	})
}
