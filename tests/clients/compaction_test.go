//go:build clients

package clients

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCodexCompacts is a conversation that is over its size when it is resumed: Codex
// has it summarized first, without its tools, and goes on with the summary.
func TestCodexCompacts(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(func(q *question) reply {
		if len(q.body.Tools) == 0 {
			return reply{Text: "THE-SUMMARY"}
		}
		return reply{Text: "All is done ✓."}
	})
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
