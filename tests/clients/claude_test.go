//go:build clients

package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const claudeProgram = "node_modules/@anthropic-ai/claude-code-linux-x64/claude"

// claudeEnv points Claude Code at an address, with a model's name.
func claudeEnv(url, name string) []string {
	return []string{
		"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_AUTH_TOKEN=unused", "ANTHROPIC_MODEL=" + name,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_GATEWAY_HINT_HEADERS=1",
	}
}

// claude is a run of Claude Code.
func claude(t *testing.T, url string, at place, args ...string) *exec.Cmd {
	return command(t, at, claudeEnv(url, model), filepath.Join(clients(t), claudeProgram), args...)
}

// claudeTalk is a running Claude Code that is spoken to line by line.
type claudeTalk struct {
	t     *testing.T
	in    *json.Encoder
	lines *bufio.Scanner
	end   func()
}

func (b *box) claudeTalk(t *testing.T, at place, name string, args ...string) *claudeTalk {
	t.Helper()
	cmd := command(t, at, claudeEnv(b.tap.URL, name), filepath.Join(clients(t), claudeProgram),
		append([]string{"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	return &claudeTalk{t: t, in: json.NewEncoder(in), lines: lines, end: func() {
		in.Close()
		for lines.Scan() {
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("Claude Code: %v\n%s", err, stderr.String())
		}
	}}
}

// await reads until a message of a type, and returns it.
func (c *claudeTalk) await(kind string) object {
	c.t.Helper()
	for c.lines.Scan() {
		var message object
		if json.Unmarshal(c.lines.Bytes(), &message) == nil && message["type"] == kind {
			return message
		}
	}
	c.t.Fatalf("Claude Code ended before it said %q: %v", kind, c.lines.Err())
	return nil
}

// prompt gives it a prompt, waits for the end of the turn and returns its result.
func (c *claudeTalk) prompt(text string) any {
	c.t.Helper()
	c.say(object{"type": "user", "message": object{"role": "user", "content": text}})
	return c.await("result")["result"]
}

// control asks something beside the conversation and returns the answer.
func (c *claudeTalk) control(request object) object {
	c.t.Helper()
	c.say(object{"type": "control_request", "request_id": fmt.Sprint(request["subtype"]), "request": request})
	answer, _ := c.await("control_response")["response"].(object)
	inner, _ := answer["response"].(object)
	if answer["subtype"] != "success" {
		c.t.Fatalf("Claude Code refused %v: %v", request, answer)
	}
	return inner
}

func (c *claudeTalk) say(message object) {
	c.t.Helper()
	if err := c.in.Encode(message); err != nil {
		c.t.Fatal(err)
	}
}

var claudeCast = cast{"main": "cc-header", "agent": "cc-header"}

// TestClaudeCodeSubagentResumedCompacted is one conversation of four runs: its first
// turn sends a subagent, which uses a tool; then it is resumed, compacted, and resumed
// once more.
func TestClaudeCodeSubagentResumedCompacted(t *testing.T) {
	b := newBox(t)
	at := newPlace(t)
	b.play(func(q *question) reply {
		switch {
		case q.has("MAIN-PROMPT"):
			return reply{Text: "I send somebody.", Tool: "Agent", Args: object{
				"description": "look", "prompt": "AGENT-PROMPT: read the notes", "subagent_type": "general-purpose",
			}}
		case q.has("AGENT-PROMPT"):
			return reply{Tool: "Read", Args: object{"file_path": filepath.Join(at.project, "notes.txt")}}
		case q.has("the answer is blue"):
			return reply{Text: "It is blue ✓."}
		}
		return reply{Text: "All is done ✓."}
	})

	if out := program(t, claude(t, b.tap.URL, at, "-p", "MAIN-PROMPT")); !strings.Contains(out, "All is done ✓.") {
		t.Errorf("it printed %q", out)
	}
	all := b.turns(t)
	first := b.expect(t, claudeCast, all, "placed main", "placed agent", "sticky agent", "sticky main")
	b.subagentOf(t, first["agent"], first["main"])
	if id := all[1].header.Get("X-Claude-Code-Agent-Id"); id == "" || all[1].engine.header.Get("X-Claude-Code-Agent-Id") != id {
		t.Error("the subagent's id did not reach the engine")
	}

	program(t, claude(t, b.tap.URL, at, "-c", "-p", "and now"))
	resumed := b.turns(t)
	program(t, claude(t, b.tap.URL, at, "-c", "-p", "/compact"))
	compaction := b.turns(t)
	program(t, claude(t, b.tap.URL, at, "-c", "-p", "and after it"))
	after := b.turns(t)
	b.expect(t, claudeCast, slices.Concat(all[:1], resumed, compaction, after), "placed main", "sticky main", "sticky main", "sticky main")
	if !bytes.Contains(compaction[0].body, []byte("MAIN-PROMPT")) || bytes.Contains(after[0].body, []byte("MAIN-PROMPT")) {
		t.Error("the compaction did not take the first turn out of the history")
	}
	b.recorded(t, "claude-code")
}

// TestClaudeCodeSideRequests asks for a title and a question beside the conversation,
// by the alias that Claude Code would use by itself.
func TestClaudeCodeSideRequests(t *testing.T) {
	b := newBox(t)
	b.play(func(q *question) reply {
		switch {
		case len(q.body.Tools) == 0:
			return reply{Text: `{"title": "Listing the files"}`}
		case q.has("LIST"):
			return reply{Tool: "Bash", Args: object{"command": "ls notes.txt", "description": "list the files"}}
		}
		return reply{Text: "All is done ✓."}
	})
	c := b.claudeTalk(t, newPlace(t), "claude-opus-4-8", "--allowedTools", "Bash")
	c.control(object{"subtype": "initialize"})
	if title := c.control(object{"subtype": "generate_session_title", "description": "list the files", "persist": false})["title"]; title != "Listing the files" {
		t.Errorf("the title is %v", title)
	}
	c.prompt("LIST the files")
	c.control(object{"subtype": "generate_session_title", "description": "list the files again", "persist": false})
	c.control(object{"subtype": "side_question", "question": "what is this about?"})
	if said := c.prompt("go on"); said != "All is done ✓." {
		t.Errorf("its answer is %v", said)
	}
	c.end()
	all := b.exchanges(t)
	if i := slices.IndexFunc(all, func(x exchange) bool { return x.method == "HEAD" && x.uri == "/" && x.status == 200 }); i < 0 {
		t.Error("its probe of the address was not answered")
	}
	turns, _ := part(all, exchange.generates)
	// The question beside goes with the whole history, so that it profits from the home.
	first := b.expect(t, claudeCast, turns, "side main", "placed main", "sticky main", "side main", "sticky main", "sticky main")
	if got := turns[3].record.GetConversation(); got != first["main"].GetConversation() {
		t.Errorf("the second title is a side call of %q, want %q", got, first["main"].GetConversation())
	}
	if n := b.conversation(t, first["main"].GetConversation()).GetTurns(); n != 4 {
		t.Errorf("the conversation has %d turns, want 4: side calls are none", n)
	}
	b.recorded(t, "claude-code-side-calls")
}
