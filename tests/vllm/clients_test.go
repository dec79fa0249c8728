//go:build vllm

package vllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/tests/harness"
)

// claude runs one turn of Claude Code in a home of its own. The first turn of a home
// begins a conversation, later ones go on with it.
func (s *suite) claude(t *testing.T, home string, turn int, prompt string) {
	t.Helper()
	args := []string{"-p", prompt}
	if turn > 1 {
		args = []string{"-c", "-p", prompt}
	}
	program := filepath.Join(os.Getenv("LMWARDEN_CLIENTS"), "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = home
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=dumb",
		"ANTHROPIC_BASE_URL=" + s.InferenceURL, "ANTHROPIC_AUTH_TOKEN=unused", "ANTHROPIC_MODEL=" + model,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_MAX_OUTPUT_TOKENS=256",
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("turn %d of Claude Code: %v\n%s", turn, err, out.String())
	}
}

func (s *suite) claudeCode(t *testing.T) {
	const turns = 3
	homes := []string{t.TempDir(), t.TempDir()}
	begin := time.Now()
	for turn := 1; turn <= turns; turn++ {
		for i, home := range homes {
			s.claude(t, home, turn, "turn "+strconv.Itoa(turn)+" of "+strconv.Itoa(i)+": say hi")
		}
	}
	var conversations map[string][]*lmwardenv1.RequestRecord
	// A request is recorded behind the last byte of its answer, when its client may have left.
	harness.Within(t, 10*time.Second, func() error {
		conversations = map[string][]*lmwardenv1.RequestRecord{}
		n := 0
		for _, r := range s.records(t, begin) {
			if r.GetPath() == "/v1/messages" && r.GetDecision() != lmwardenv1.DecisionClass_DECISION_CLASS_SIDE {
				conversations[r.GetConversation()] = append(conversations[r.GetConversation()], r)
				n++
			}
		}
		if n < turns*len(homes) {
			return fmt.Errorf("%d requests of Claude Code are recorded, want one at least of each of %d turns of %d conversations", n, turns, len(homes))
		}
		return nil
	})
	if len(conversations) != 2 {
		t.Fatalf("Claude Code's two conversations were told as %d", len(conversations))
	}
	homesTaken := map[uint32]bool{}
	for id, requests := range conversations {
		if len(requests) < turns {
			t.Errorf("conversation %s has %d requests, want %d turns", id, len(requests), turns)
		}
		homesTaken[requests[0].GetReplica()] = true
		for i, r := range requests {
			if r.GetKeySource() != "cc-header" {
				t.Errorf("the key of request %d of %s came from %q, want cc-header", i+1, id, r.GetKeySource())
			}
			want := lmwardenv1.DecisionClass_DECISION_CLASS_STICKY
			if i == 0 {
				want = lmwardenv1.DecisionClass_DECISION_CLASS_PLACED
			}
			if r.GetDecision() != want || r.GetReplica() != requests[0].GetReplica() || r.GetStatus() != 200 {
				t.Errorf("request %d of %s: status %d, %s on replica %d; want 200, %s on replica %d", i+1, id,
					r.GetStatus(), r.GetDecision(), r.GetReplica(), want, requests[0].GetReplica())
			}
			if share := float64(r.GetCachedTokens()) / float64(r.GetPromptTokens()); i > 0 && !(share > 0.9) {
				t.Errorf("request %d of %s: %d of %d prompt tokens came from the cache, want more than 90 %%", i+1, id, r.GetCachedTokens(), r.GetPromptTokens())
			}
		}
		last := requests[len(requests)-1]
		t.Logf("conversation %s: %d requests on replica %d, last prompt %d tokens, %d cached", id, len(requests), last.GetReplica(), last.GetPromptTokens(), last.GetCachedTokens())
	}
	if len(homesTaken) != 2 {
		t.Error("both conversations were placed on one replica while the other was idle")
	}
}

func (s *suite) sdks(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, sdk := range []string{"openai", "anthropic"} {
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join(here, "clients", sdk+".mjs"), s.InferenceURL, model, sdk+"-sdk-conversation")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("the %s SDK: %v\n%s%s", sdk, err, out, stderr.String())
		}
		var seen struct {
			Text   string         `json:"text"`
			Finish string         `json:"finish"`
			Usage  map[string]any `json:"usage"`
			Chunks int            `json:"chunks"`
			Events int            `json:"events"`
		}
		if err := json.Unmarshal(out, &seen); err != nil {
			t.Fatalf("the %s SDK printed %q: %v", sdk, out, err)
		}
		if seen.Text == "" || seen.Finish == "" || seen.Usage == nil || seen.Chunks+seen.Events < 3 {
			t.Errorf("the %s SDK saw %s; want text, a finish reason, usage and several events", sdk, out)
		}
	}
}
