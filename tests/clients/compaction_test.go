//go:build clients

package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// summarized answers a request without tools, which asks for a summary, with one.
func summarized(q *question) reply {
	if len(q.body.Tools) == 0 {
		return reply{Text: "THE-SUMMARY"}
	}
	return reply{Text: "All is done ✓."}
}

// TestCodexCompacts is a conversation that is over its size when it is resumed: Codex
// has it summarized first, without its tools, and goes on with the summary.
func TestCodexCompacts(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(summarized)
	program(t, codex(t, b.tap.URL, at, "exec", "--skip-git-repo-check", "MAIN-PROMPT"))
	turns := b.turns(t)
	program(t, codex(t, b.tap.URL, at, "exec", "resume", "--skip-git-repo-check", "-c", "model_auto_compact_token_limit=1000", "--last", "and now"))
	turns = append(turns, b.turns(t)...)
	b.expect(t, cast{"main": "codex-thread"}, turns, "placed main", "sticky main", "sticky main")
	if said := turns[1].header.Get("X-Codex-Turn-Metadata"); !strings.Contains(said, `"request_kind":"compaction"`) {
		t.Errorf("the summary was asked for as %s", said)
	}
	if !bytes.Contains(turns[2].body, []byte("THE-SUMMARY")) || bytes.Contains(turns[2].body, []byte("All is done ✓.")) {
		t.Error("the compaction did not take the first answer out of the history")
	}
	b.recorded(t, "codex-compaction")
}

// TestQwenCodeAgentAndCompaction is a conversation that sends an agent and is compacted
// when it is resumed. Without an id, an agent and a summary are conversations of their
// own.
func TestQwenCodeAgentAndCompaction(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(func(q *question) reply {
		switch {
		case q.has("MAIN-PROMPT"):
			return reply{Text: "I send somebody.", Tool: "agent", Args: object{
				"description": "look", "prompt": "AGENT-PROMPT: read the notes", "subagent_type": "general-purpose",
			}}
		case q.has("AGENT-PROMPT"):
			return reply{Text: "I look.", Tool: "read_file", Args: object{"file_path": filepath.Join(at.project, "notes.txt")}}
		case q.has("the answer is blue"):
			return reply{Text: "It is blue ✓."}
		}
		return reply{Text: "All is done ✓."}
	})
	var all []exchange
	for _, args := range [][]string{{"-p", "MAIN-PROMPT"}, {"-c", "-p", "/compress"}, {"-c", "-p", "and now"}} {
		program(t, qwen(t, b.tap.URL, at, args...))
		// What it does beside the conversation may come or not.
		_, turns := part(b.turns(t), func(x exchange) bool { return len(x.engine.tools) > 0 && !slices.Contains(x.engine.tools, "skill") })
		all = append(all, turns...)
	}
	b.expect(t, cast{"main": "chain", "agent": "chain", "summary": "chain", "after": "chain"}, all,
		"placed main", "placed agent", "sticky agent", "sticky main", "placed summary", "placed after")
	if bytes.Contains(all[5].body, []byte("MAIN-PROMPT")) {
		t.Error("the compaction did not take the first turn out of the history")
	}
	b.recorded(t, "qwen-code-agent")
}

// TestOpenCodeCompacts is a conversation that its user has summarized, as the command
// /compact of its terminal does, and goes on with. The summary is asked for with the
// conversation's id but without its tools and under its own system text.
func TestOpenCodeCompacts(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(summarized)
	program(t, opencode(t, b.tap.URL, at, "run", "MAIN-PROMPT"))
	titles, main := part(b.turns(t), func(x exchange) bool { return len(x.engine.tools) == 0 })
	summarize(t, opencode(t, b.tap.URL, at, "serve", "--port", "0"))
	summaries := b.turns(t)
	program(t, opencode(t, b.tap.URL, at, "run", "-c", "and now"))
	after := b.turns(t)
	c := cast{"main": "x-session-affinity"}
	b.expect(t, c, titles, "side main")
	b.expect(t, c, slices.Concat(main, summaries, after), "placed main", "sticky main", "sticky main")
	if !bytes.Contains(after[0].body, []byte("THE-SUMMARY")) || bytes.Contains(after[0].body, []byte("All is done ✓.")) {
		t.Error("the compaction did not take the first answer out of the history")
	}
	b.recorded(t, "opencode-compaction")
}

// summarize has a server of OpenCode summarize the only session that there is.
func summarize(t *testing.T, server *exec.Cmd) {
	t.Helper()
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Cancel() // its whole group
		_ = server.Wait()   // it was killed
	}()
	url := ""
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "listening on "); ok {
			url = strings.TrimSpace(at)
		}
	}
	var sessions []struct {
		ID     string `json:"id"`
		Parent string `json:"parentID"`
	}
	answer, err := http.Get(url + "/session")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(&sessions); err != nil || len(sessions) != 1 {
		t.Fatalf("the server of OpenCode has the sessions %v: %v", sessions, err)
	}
	done, err := http.Post(url+"/session/"+sessions[0].ID+"/summarize", "application/json",
		strings.NewReader(fmt.Sprintf(`{"providerID":"lmwarden","modelID":%q}`, model)))
	if err != nil {
		t.Fatal(err)
	}
	defer done.Body.Close()
	if done.StatusCode != http.StatusOK {
		t.Fatalf("OpenCode summarizes with status %d", done.StatusCode)
	}
}
