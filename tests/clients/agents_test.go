//go:build clients

package clients

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// codex is a run of Codex.
func codex(t *testing.T, url string, at place, args ...string) *exec.Cmd {
	t.Helper()
	writeFile(t, filepath.Join(at.home, ".codex/config.toml"), fmt.Sprintf(`
model = %q
model_provider = "lmwarden"
[model_providers.lmwarden]
name = "lmwarden"
base_url = "%s/v1"
wire_api = "responses"
env_key = "LMWARDEN_KEY"
`, model, url))
	return command(t, at, []string{"LMWARDEN_KEY=unused"},
		filepath.Join(clients(t), "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"), args...)
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
			return reply{Tool: "spawn_agent", Namespace: namespace, Args: object{"message": "AGENT-PROMPT"}}
		case q.has("AGENT-PROMPT"):
			return reply{Text: "It is blue ✓."}
		case q.has(`\"agent_id\"`):
			id := agentID.FindSubmatch(q.raw)
			return reply{Tool: "wait_agent", Namespace: namespace, Args: object{"targets": []string{string(id[1])}, "timeout_ms": 20000}}
		}
		return reply{Text: "All is done ✓."}
	})
	if out := program(t, codex(t, b.tap.URL, at, "exec", "--skip-git-repo-check", "MAIN-PROMPT")); !strings.Contains(out, "All is done ✓.") {
		t.Errorf("it printed %q", out)
	}
	// The agent runs beside its parent.
	agent, main := part(b.turns(t), func(x exchange) bool { return x.header.Get("X-Codex-Parent-Thread-Id") != "" })
	codexCast := cast{"main": "codex-thread", "agent": "codex-thread"}
	first := b.expect(t, codexCast, slices.Concat(main, agent), "placed main", "sticky main", "sticky main", "placed agent")
	b.subagentOf(t, first["agent"], first["main"])

	// The latest session may be the agent's, which --last would take.
	program(t, codex(t, b.tap.URL, at, "exec", "resume", "--skip-git-repo-check", main[0].header.Get("Thread-Id"), "and now"))
	b.expect(t, codexCast, append(main[:1], b.turns(t)...), "placed main", "sticky main")
	b.recorded(t, "codex")
}

// opencode is a run of OpenCode.
func opencode(t *testing.T, url string, at place, args ...string) *exec.Cmd {
	t.Helper()
	config := filepath.Join(at.home, "opencode.json")
	writeFile(t, config, fmt.Sprintf(`{
  "provider": {"lmwarden": {"npm": "@ai-sdk/openai-compatible", "name": "lmwarden",
    "options": {"baseURL": "%s/v1", "apiKey": "unused"}, "models": {%q: {"name": %q}}}},
  "model": "lmwarden/%s", "autoupdate": false, "share": "disabled"
}`, url, model, model, model))
	return command(t, at, []string{"OPENCODE_CONFIG=" + config, "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"},
		filepath.Join(clients(t), "node_modules/opencode-linux-x64/bin/opencode"), args...)
}

// TestOpenCode is one conversation of two runs with a subtask; the request for its
// title comes first.
func TestOpenCode(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(func(q *question) reply {
		switch {
		case len(q.body.Tools) == 0:
			return reply{Text: "Sending somebody"}
		case q.has("MAIN-PROMPT"):
			return reply{Text: "I send somebody.", Tool: "task", Args: object{
				"description": "look", "prompt": "AGENT-PROMPT: read the notes", "subagent_type": "general",
			}}
		case q.has("AGENT-PROMPT"):
			return reply{Tool: "read", Args: object{"filePath": filepath.Join(at.project, "notes.txt")}}
		case q.has("the answer is blue"):
			return reply{Text: "It is blue ✓."}
		}
		return reply{Text: "All is done ✓."}
	})
	if out := program(t, opencode(t, b.tap.URL, at, "run", "MAIN-PROMPT")); !strings.Contains(out, "All is done ✓.") {
		t.Errorf("it printed %q", out)
	}
	titles, turns := part(b.turns(t), func(x exchange) bool { return len(x.engine.tools) == 0 })
	opencodeCast := cast{"main": "x-session-affinity", "agent": "x-session-affinity"}
	b.expect(t, opencodeCast, titles, "side main")
	first := b.expect(t, opencodeCast, turns, "placed main", "placed agent", "sticky agent", "sticky main")
	b.subagentOf(t, first["agent"], first["main"])
	program(t, opencode(t, b.tap.URL, at, "run", "-c", "and now"))
	b.expect(t, opencodeCast, append(turns[:1], b.turns(t)...), "placed main", "sticky main")
	b.recorded(t, "opencode")
}

// qwen is a run of Qwen Code.
func qwen(t *testing.T, url string, at place, args ...string) *exec.Cmd {
	t.Helper()
	return command(t, at, []string{
		"OPENAI_BASE_URL=" + url + "/v1", "OPENAI_API_KEY=unused", "OPENAI_MODEL=" + model,
	}, "node", append([]string{filepath.Join(clients(t), "node_modules/@qwen-code/qwen-code/cli.js")}, args...)...)
}

// TestQwenCode is two conversations in one project, which begin with the same system
// text and the same first user message and name no id; the second is resumed.
func TestQwenCode(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(func(q *question) reply {
		switch {
		case q.has("FIRST-PROMPT"), q.has("SECOND-PROMPT"):
			return reply{Text: "I look.", Tool: "read_file", Args: object{"file_path": filepath.Join(at.project, "notes.txt")}}
		case q.has("the answer is blue"):
			return reply{Text: "It is blue ✓."}
		}
		return reply{Text: "All is done ✓."}
	})
	var all []exchange
	for _, args := range [][]string{{"-p", "FIRST-PROMPT"}, {"-p", "SECOND-PROMPT"}, {"-c", "-p", "and now"}} {
		if out := program(t, qwen(t, b.tap.URL, at, args...)); !strings.Contains(out, "✓") {
			t.Errorf("it printed %q", out)
		}
		all = append(all, b.turns(t)...)
	}
	// What it does beside the conversation offers fewer tools, and begins otherwise.
	main, beside := part(all, func(x exchange) bool { return slices.Contains(x.engine.tools, "agent") })
	first := b.expect(t, cast{"first": "chain", "second": "chain"}, main,
		"placed first", "sticky first", "placed second", "sticky second", "sticky second")
	for _, x := range beside {
		if id := x.record.GetConversation(); id == first["first"].GetConversation() || id == first["second"].GetConversation() {
			t.Errorf("a request with another system text was taken for a turn of %s", id)
		}
	}
	b.recorded(t, "qwen-code")
}
