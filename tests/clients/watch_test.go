//go:build clients

package clients

import (
	"bytes"
	"encoding/json"
	"testing"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// has says whether the request's last message holds a text. Last messages are where
// prompts and the results of tools stand; Claude Code may add a system entry behind.
func (q *question) has(text string) bool {
	turns := q.body.Messages
	if len(q.body.Input) > 0 && q.body.Input[0] == '"' {
		return bytes.Contains(q.body.Input, []byte(text))
	}
	if len(q.body.Input) > 0 && q.body.Input[0] == '[' {
		_ = json.Unmarshal(q.body.Input, &turns) // an array stands there
	}
	for i := len(turns) - 1; i >= 0; i-- {
		var turn struct {
			Role string `json:"role"`
		}
		_ = json.Unmarshal(turns[i], &turn) // a turn without a role has ""
		if turn.Role != "system" && turn.Role != "developer" {
			return bytes.Contains(turns[i], []byte(text))
		}
	}
	return false
}

// forget returns what reached the engines since the last call, in order. What was
// returned can still be found by its number.
func (e *engines) forget() []*traffic {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*traffic
	for _, number := range e.order {
		all = append(all, e.traffic[number])
	}
	e.order = nil
	return all
}

// onAnswer sets what is told of every answer's head, before the client has it.
func (p *tap) onAnswer(told func(*seen)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = told
}

// conversation returns a live conversation as the page shows it.
func (b *box) conversation(t *testing.T, id string) *lmwardenv1.Conversation {
	t.Helper()
	answer, err := b.Routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: model})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range answer.GetCard().GetReplicas() {
		for _, c := range r.GetConversations() {
			if c.GetId() == id {
				return c
			}
		}
	}
	t.Fatalf("conversation %s is not among the live ones", id)
	return nil
}

// subagentOf checks that one conversation is shown as the subagent of another, and that
// it followed it: neither replica had much to do.
func (b *box) subagentOf(t *testing.T, agent, main *lmwardenv1.RequestRecord) {
	t.Helper()
	a, m := b.conversation(t, agent.GetConversation()), b.conversation(t, main.GetConversation())
	if !a.GetSubagent() || m.GetSubagent() || a.GetGroup() != m.GetGroup() {
		t.Errorf("the subagent is shown as %v, its parent as %v; want a subagent of the same group", a, m)
	}
	if agent.GetReplica() != main.GetReplica() {
		t.Errorf("the subagent went to replica %d, its parent is at home on %d: %s", agent.GetReplica(), main.GetReplica(), agent.GetReason())
	}
}
