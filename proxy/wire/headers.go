package wire

import (
	"net/http"
	"strings"
)

// header is a request header that identification reads.
type header uint8

// The headers, by what they say.
const (
	hdrNone header = iota
	hdrClaudeSession
	hdrClaudeAgent
	hdrClaudeParentAgent
	hdrClaudeClass
	hdrClaudeCompaction
	hdrClaudeCompacted
	hdrCodexThread
	hdrCodexSession // also the generic session-id
	hdrCodexParent
	hdrCodexSubagent
	hdrCodexTurn
	hdrOriginator
	hdrAmpThread
	hdrOpencodeSession
	hdrDeepseekSession
	hdrDeepseekParent
	hdrDeepseekCompact
	hdrGrokConv
	hdrGrokSession
	hdrOpenWebUIChat
	hdrOpenclawSession
	hdrSessionAffinity
	hdrXSessionID
	hdrSessionUnderscore
	hdrXAffinity
	hdrAgentSession
	hdrXConversation
	hdrConversationUnderscore
	hdrConversation
	hdrXChat
	hdrXThread
	hdrParentSession
	hdrClientRequest
	hdrUserAgent
	hdrUserID
	hdrCorrelation
	numHeaders
)

// headerOf names a header by the canonical form that net/http gives its key.
var headerOf = map[string]header{
	"X-Claude-Code-Session-Id":             hdrClaudeSession,
	"X-Claude-Code-Agent-Id":               hdrClaudeAgent,
	"X-Claude-Code-Parent-Agent-Id":        hdrClaudeParentAgent,
	"X-Claude-Code-Request-Class":          hdrClaudeClass,
	"X-Claude-Code-Compaction":             hdrClaudeCompaction,
	"X-Claude-Code-Context-Compacted":      hdrClaudeCompacted,
	"Thread-Id":                            hdrCodexThread,
	"Session-Id":                           hdrCodexSession,
	"X-Codex-Parent-Thread-Id":             hdrCodexParent,
	"X-Openai-Subagent":                    hdrCodexSubagent,
	"X-Codex-Turn-Metadata":                hdrCodexTurn,
	"Originator":                           hdrOriginator,
	"X-Amp-Thread-Id":                      hdrAmpThread,
	"X-Opencode-Session":                   hdrOpencodeSession,
	"X-Deepseek-Harness-Session-Id":        hdrDeepseekSession,
	"X-Deepseek-Harness-Parent-Session-Id": hdrDeepseekParent,
	"X-Deepseek-Harness-Compact":           hdrDeepseekCompact,
	"X-Grok-Conv-Id":                       hdrGrokConv,
	"X-Grok-Session-Id":                    hdrGrokSession,
	"X-Openwebui-Chat-Id":                  hdrOpenWebUIChat,
	"X-Openclaw-Session-Key":               hdrOpenclawSession,
	"X-Session-Affinity":                   hdrSessionAffinity,
	"X-Session-Id":                         hdrXSessionID,
	"Session_id":                           hdrSessionUnderscore,
	"X-Affinity":                           hdrXAffinity,
	"Agent-Session-Id":                     hdrAgentSession,
	"X-Conversation-Id":                    hdrXConversation,
	"Conversation_id":                      hdrConversationUnderscore,
	"Conversation-Id":                      hdrConversation,
	"X-Chat-Id":                            hdrXChat,
	"X-Thread-Id":                          hdrXThread,
	"X-Parent-Session-Id":                  hdrParentSession,
	"X-Client-Request-Id":                  hdrClientRequest,
	"User-Agent":                           hdrUserAgent,
	"X-User-Id":                            hdrUserID,
	"X-Correlation-Id":                     hdrCorrelation,
}

// headerValues holds the value of each header that is there. A header that occurs
// more than once with different values is empty and counted.
type headerValues struct {
	v         [numHeaders]string
	conflicts int
	xCodex    bool // any header that begins with X-Codex-
}

// readHeaders reads all known headers in one pass.
func readHeaders(h http.Header) (out headerValues) {
	for name, values := range h {
		if id := headerOf[name]; id != hdrNone {
			out.v[id] = out.one(values)
		}
		out.xCodex = out.xCodex || strings.HasPrefix(name, "X-Codex-")
	}
	return out
}

// one returns the single trimmed value of a header; "" when values differ.
func (h *headerValues) one(values []string) string {
	if len(values) == 0 {
		return ""
	}
	first := strings.TrimSpace(values[0])
	for _, v := range values[1:] {
		if strings.TrimSpace(v) != first {
			h.conflicts++
			return ""
		}
	}
	return first
}

// codex says whether the headers are those of the Codex client, so that thread-id
// may be believed. It sends the thread a second time as the id of the request.
func (h *headerValues) codex() bool {
	thread := h.v[hdrCodexThread]
	return thread != "" && (h.xCodex || h.v[hdrCodexSession] != "" || h.v[hdrOriginator] != "" ||
		h.v[hdrClientRequest] == thread)
}

// Product returns the first product of a user agent without its version, in lower
// case: "claude-cli" of "claude-cli/2.1.197 (external, cli)". It is at most 64 bytes.
func Product(userAgent string) string {
	p := strings.TrimSpace(userAgent)
	if i := strings.IndexAny(p, "/ (;"); i >= 0 {
		p = p[:i]
	}
	return strings.ToLower(p[:min(len(p), 64)])
}
