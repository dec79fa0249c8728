//go:build clients

package clients

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func (b *box) codex(t *testing.T, at place, args ...string) string {
	t.Helper()
	writeFile(t, filepath.Join(at.home, ".codex/config.toml"), fmt.Sprintf(`
model = %q
model_provider = "lmwarden"
[model_providers.lmwarden]
name = "lmwarden"
base_url = "%s/v1"
wire_api = "responses"
env_key = "LMWARDEN_KEY"
`, model, b.tap.URL))
	return b.program(t, at, []string{"LMWARDEN_KEY=unused"},
		filepath.Join(b.clients, "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"), args...)
}

// TestCodex is one conversation of two runs; in the first it spawns an agent and waits
// for it.
func TestCodex(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	agentID := regexp.MustCompile(`\\"agent_id\\":\\"([0-9a-f-]+)`)
	const namespace = "multi_agent_v1"
	b.play(func(q *question) reply {
		switch {
		case q.has("MAIN-PROMPT"):
			return reply{tool: "spawn_agent", namespace: namespace, args: object{"message": "AGENT-PROMPT"}}
		case q.has("AGENT-PROMPT"):
			return reply{text: "It is blue ✓."}
		case q.has(`\"agent_id\"`):
			id := agentID.FindSubmatch(q.raw)
			return reply{tool: "wait_agent", namespace: namespace, args: object{"targets": []string{string(id[1])}, "timeout_ms": 20000}}
		}
		return reply{text: "All is done ✓."}
	})
	if out := b.codex(t, at, "exec", "--skip-git-repo-check", "MAIN-PROMPT"); !strings.Contains(out, "All is done ✓.") {
		t.Errorf("it printed %q", out)
	}
	// The agent runs beside its parent.
	agent, main := part(b.turns(t), func(x exchange) bool { return x.header.Get("X-Codex-Parent-Thread-Id") != "" })
	codexCast := cast{"main": "codex-thread", "agent": "codex-thread"}
	first := expect(t, codexCast, slices.Concat(main, agent), "placed main", "sticky main", "sticky main", "placed agent")
	b.subagentOf(t, first["agent"], first["main"])

	b.codex(t, at, "exec", "resume", "--skip-git-repo-check", "--last", "and now")
	expect(t, codexCast, append(main[:1], b.turns(t)...), "placed main", "sticky main")
}

func (b *box) opencode(t *testing.T, at place, args ...string) string {
	t.Helper()
	config := filepath.Join(at.home, "opencode.json")
	writeFile(t, config, fmt.Sprintf(`{
  "provider": {"lmwarden": {"npm": "@ai-sdk/openai-compatible", "name": "lmwarden",
    "options": {"baseURL": "%s/v1", "apiKey": "unused"}, "models": {%q: {"name": %q}}}},
  "model": "lmwarden/%s", "autoupdate": false, "share": "disabled"
}`, b.tap.URL, model, model, model))
	return b.program(t, at, []string{"OPENCODE_CONFIG=" + config, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
		filepath.Join(b.clients, "node_modules/opencode-linux-x64/bin/opencode"), args...)
}

// TestOpenCode is one conversation of two runs with a subtask; the request for its
// title comes first.
func TestOpenCode(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(func(q *question) reply {
		switch {
		case len(q.body.Tools) == 0:
			return reply{text: "Sending somebody"}
		case q.has("MAIN-PROMPT"):
			return reply{text: "I send somebody.", tool: "task", args: object{
				"description": "look", "prompt": "AGENT-PROMPT: read the notes", "subagent_type": "general",
			}}
		case q.has("AGENT-PROMPT"):
			return reply{tool: "read", args: object{"filePath": filepath.Join(at.project, "notes.txt")}}
		case q.has("the answer is blue"):
			return reply{text: "It is blue ✓."}
		}
		return reply{text: "All is done ✓."}
	})
	if out := b.opencode(t, at, "run", "MAIN-PROMPT"); !strings.Contains(out, "All is done ✓.") {
		t.Errorf("it printed %q", out)
	}
	titles, turns := part(b.turns(t), func(x exchange) bool { return len(x.engine.tools) == 0 })
	opencodeCast := cast{"main": "x-session-affinity", "agent": "x-session-affinity"}
	expect(t, opencodeCast, titles, "side main")
	first := expect(t, opencodeCast, turns, "placed main", "placed agent", "sticky agent", "sticky main")
	b.subagentOf(t, first["agent"], first["main"])
	b.opencode(t, at, "run", "-c", "and now")
	expect(t, opencodeCast, append(turns[:1], b.turns(t)...), "placed main", "sticky main")
}

func (b *box) qwen(t *testing.T, at place, args ...string) string {
	t.Helper()
	return b.program(t, at, []string{
		"OPENAI_BASE_URL=" + b.tap.URL + "/v1", "OPENAI_API_KEY=unused", "OPENAI_MODEL=" + model,
	}, "node", append([]string{filepath.Join(b.clients, "node_modules/@qwen-code/qwen-code/cli.js")}, args...)...)
}

// TestQwenCode is two conversations in one project, which begin with the same system
// text and the same first user message and name no id; the second is resumed.
func TestQwenCode(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(func(q *question) reply {
		switch {
		case q.has("FIRST-PROMPT"), q.has("SECOND-PROMPT"):
			return reply{text: "I look.", tool: "read_file", args: object{"file_path": filepath.Join(at.project, "notes.txt")}}
		case q.has("the answer is blue"):
			return reply{text: "It is blue ✓."}
		}
		return reply{text: "All is done ✓."}
	})
	var all []exchange
	for _, args := range [][]string{{"-p", "FIRST-PROMPT"}, {"-p", "SECOND-PROMPT"}, {"-c", "-p", "and now"}} {
		if out := b.qwen(t, at, args...); !strings.Contains(out, "✓") {
			t.Errorf("it printed %q", out)
		}
		all = append(all, b.turns(t)...)
	}
	// What it does beside the conversation offers fewer tools, and begins otherwise.
	main, beside := part(all, func(x exchange) bool { return slices.Contains(x.engine.tools, "agent") })
	first := expect(t, cast{"first": "chain", "second": "chain"}, main,
		"placed first", "sticky first", "placed second", "sticky second", "sticky second")
	for _, x := range beside {
		if id := x.record.GetConversation(); id == first["first"].GetConversation() || id == first["second"].GetConversation() {
			t.Errorf("a request with another system text was taken for a turn of %s", id)
		}
	}
}
