package wire

import (
	"net/http"
	"strings"
)

// Names of the headers that are our own, unless configured otherwise.
const (
	DefaultHeader       = "X-Lmwarden-Session-Id"
	DefaultParentHeader = "X-Lmwarden-Parent-Session-Id"
)

// Options say which sources count beyond those that always do. All opt-in sources
// are off in the zero value.
type Options struct {
	// Header is our own header, which wins over all others; empty means DefaultHeader.
	Header string
	// ParentHeader names the conversation that spawned this one; empty means
	// DefaultParentHeader.
	ParentHeader string
	// ExtraHeaders are further headers that name a conversation, read after Header and
	// before all others, such as X-Dynamo-Session-Id or X-Smg-Routing-Key.
	ExtraHeaders []string

	User         bool // body field user: one key for all conversations of a person
	Safety       bool // body field safety_identifier
	MetadataUser bool // free-form metadata.user_id
	UserHeader   bool // x-user-id
	Correlation  bool // x-correlation-id
	ClientIP     bool // address of Client: one key for all that one machine sends

	// Client is where this request comes from, as "10.0.0.7:41234", for ClientIP.
	Client string
}

// Identity is which conversation a request belongs to, as far as the client says.
type Identity struct {
	Key    string // text to hash; "" when the client names no conversation
	Group  string // what the client calls a session; the key itself for a lone conversation
	Parent string // conversation that spawned this one, or ""
	Kind   Kind
	Source Source

	// PreviousResponse is the id of a stored answer that this request continues. It must
	// go to the replica that made it, whatever the key says; "" for most requests.
	PreviousResponse string
	// Compaction is true for the request that summarizes a history: it needs the home's
	// cache once more. Compacted is true for the first request after it: the old prefix
	// is dead.
	Compaction, Compacted bool
	// Conflicts counts headers that came more than once with different values and were
	// taken as absent.
	Conflicts int
}

// Identify tells the conversation of a request from its headers and its body, in
// the order: our own header, headers of known clients, generic headers, body
// fields, opt-in sources. s may be a zero Scan when there is no body.
func Identify(api API, h http.Header, s *Scan, o Options) Identity {
	r := reader{api: api, all: h, hdr: readHeaders(h), s: s, o: o}
	r.id.PreviousResponse = cleanValue(s.Text(FieldPreviousResponseID))
	_ = r.own() || r.clientHeaders() || r.genericHeaders() || r.body() || r.optIn()
	r.relations()
	r.classify()
	r.id.Conflicts = r.hdr.conflicts
	if r.id.Key == "" && r.id.PreviousResponse != "" {
		r.id.Source = SourcePreviousResponse
	}
	return r.id
}

// reader collects an Identity.
type reader struct {
	api API
	all http.Header
	hdr headerValues
	s   *Scan
	o   Options

	value string // clean value behind id.Key
	id    Identity
}

// take makes a value the key; false when the rules refuse it.
func (r *reader) take(s Source, value string) bool {
	v := cleanValue(value)
	if v == "" {
		return false
	}
	r.value, r.id.Source, r.id.Key = v, s, keyText(s, v)
	return true
}

// own reads our own header and the configured ones.
func (r *reader) own() bool {
	name := r.o.Header
	if name == "" {
		name = DefaultHeader
	}
	if r.take(SourceOwn, r.hdr.one(r.all.Values(name))) {
		return true
	}
	for _, name := range r.o.ExtraHeaders {
		if r.take(SourceExtra, r.hdr.one(r.all.Values(name))) {
			return true
		}
	}
	return false
}

// headerSource is a header and the source that it is.
type headerSource struct {
	h header
	s Source
}

// clientOrder are headers that only one client sends, after the two that need more
// than a look.
var clientOrder = [...]headerSource{
	{hdrAmpThread, SourceAmp},
	{hdrOpencodeSession, SourceOpencode},
	{hdrDeepseekSession, SourceDeepseek},
	{hdrGrokConv, SourceGrokConv},
	{hdrGrokSession, SourceGrokSession},
	{hdrOpenWebUIChat, SourceOpenWebUI},
	{hdrOpenclawSession, SourceOpenclaw},
}

// genericOrder are headers that many clients and proxies share.
var genericOrder = [...]headerSource{
	{hdrSessionAffinity, SourceSessionAffinity},
	{hdrXSessionID, SourceXSessionID},
	{hdrCodexSession, SourceSessionID},
	{hdrSessionUnderscore, SourceSessionUnderscore},
	{hdrXAffinity, SourceXAffinity},
	{hdrAgentSession, SourceAgentSession},
	{hdrXConversation, SourceXConversation},
	{hdrConversationUnderscore, SourceConversationUnderscore},
	{hdrConversation, SourceConversationHeader},
	{hdrXChat, SourceXChat},
	{hdrXThread, SourceXThread},
}

// clientHeaders reads the headers that name their client.
func (r *reader) clientHeaders() bool {
	if r.take(SourceClaudeHeader, r.hdr.v[hdrClaudeSession]) {
		return true
	}
	if r.hdr.codex() && r.take(SourceCodexThread, r.hdr.v[hdrCodexThread]) {
		return true
	}
	for _, c := range clientOrder {
		if r.take(c.s, r.hdr.v[c.h]) {
			return true
		}
	}
	return false
}

// genericHeaders reads the headers that many send. A request id is believed only
// from the one client that puts its session there.
func (r *reader) genericHeaders() bool {
	for _, c := range genericOrder {
		if v := r.hdr.v[c.h]; !isAddress(v) && r.take(c.s, v) {
			return true
		}
	}
	switch Product(r.hdr.v[hdrUserAgent]) {
	case "pi", "pi-ai", "pi-coding-agent":
		return r.take(SourcePiRequest, r.hdr.v[hdrClientRequest])
	}
	return false
}

// relations finds group and parent of the conversation.
func (r *reader) relations() {
	if r.id.Key == "" {
		return
	}
	r.id.Group = r.id.Key
	switch r.id.Source {
	case SourceOwn, SourceExtra:
		name := r.o.ParentHeader
		if name == "" {
			name = DefaultParentHeader
		}
		r.child(SourceOwn, r.hdr.one(r.all.Values(name)))
	case SourceClaudeHeader, SourceClaudeMetadata:
		r.claudeAgent()
	case SourceCodexThread:
		r.codexThread()
	case SourceClientMetadata:
		r.clientMetadataRelations()
	case SourceDeepseek:
		r.child(r.id.Source, r.hdr.v[hdrDeepseekParent])
	default:
		r.child(r.id.Source, r.hdr.v[hdrParentSession])
	}
}

// child makes the conversation a child of the one that parent names, if any.
func (r *reader) child(s Source, parent string) {
	p := cleanValue(parent)
	if p == "" || p == r.value {
		return
	}
	r.id.Parent = keyText(s, p)
	r.id.Group, r.id.Kind = r.id.Parent, KindAgent
}

// claudeAgent tells a subagent of Claude Code apart: it shares the session's id.
func (r *reader) claudeAgent() {
	agent := cleanAgent(r.hdr.v[hdrClaudeAgent])
	if agent == "" {
		return
	}
	r.id.Parent, r.id.Kind = r.id.Group, KindAgent
	if p := cleanAgent(r.hdr.v[hdrClaudeParentAgent]); p != "" && p != agent {
		r.id.Parent = r.id.Group + "/a:" + p
	}
	r.id.Key = r.id.Group + "/a:" + agent
}

// codexThread ties a thread of Codex to its session and its parent.
func (r *reader) codexThread() {
	r.thread(r.hdr.v[hdrCodexSession], r.hdr.v[hdrCodexParent])
	if sub := r.hdr.v[hdrCodexSubagent]; sub != "" && sub != "compact" {
		r.id.Kind = KindAgent
	}
}

// thread sets group and parent of a Codex thread; a thread that is not its
// session's root is an agent.
func (r *reader) thread(session, parent string) {
	if v := cleanValue(session); v != "" {
		r.id.Group = keyText(SourceSessionID, v)
		if v != r.value {
			r.id.Kind, r.id.Parent = KindAgent, r.id.Group
		}
	}
	if v := cleanValue(parent); v != "" && v != r.value {
		r.id.Kind, r.id.Parent = KindAgent, keyText(SourceCodexThread, v)
	}
}

// hasPrefixFold is strings.HasPrefix without regard to case.
func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
