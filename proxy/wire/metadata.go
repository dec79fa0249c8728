package wire

import (
	"net/netip"
	"strings"
)

// body reads the fields of the body that name a conversation.
func (r *reader) body() bool {
	return r.conversation() || r.clientMetadata() || r.claudeMetadata() || r.sessionFields() ||
		r.take(SourcePromptCacheKey, r.s.Text(FieldPromptCacheKey))
}

// conversation reads the conversation that the responses surface stores: a string,
// or an object with an id.
func (r *reader) conversation() bool {
	raw := r.s.Raw(FieldConversation)
	if t, ok := textOf(raw); ok {
		return r.take(SourceConversation, t)
	}
	return r.take(SourceConversation, memberText(raw, "id"))
}

// codexTurn is the name of the JSON document of Codex, as a header and as a member
// of client_metadata.
const codexTurn = "x-codex-turn-metadata"

// clientMetadata reads the copy of its headers that Codex puts into the body: the
// thread, else the session, there or in the document about the turn.
func (r *reader) clientMetadata() bool {
	raw := r.s.Raw(FieldClientMetadata)
	if raw == nil {
		return false
	}
	turn := []byte(memberText(raw, codexTurn))
	for _, name := range [...]string{"thread_id", "session_id"} {
		if r.take(SourceClientMetadata, memberText(raw, name)) ||
			r.take(SourceClientMetadata, memberText(turn, name)) {
			return true
		}
	}
	return false
}

// clientMetadataRelations ties a thread told from client_metadata to its session.
func (r *reader) clientMetadataRelations() {
	raw := r.s.Raw(FieldClientMetadata)
	turn := []byte(memberText(raw, codexTurn))
	session := firstText(raw, turn, "session_id", "session_id")
	r.thread(session, firstText(raw, turn, "x-codex-parent-thread-id", "parent_thread_id"))
}

// firstText returns the text that a holds under nameA, else that of b under nameB.
func firstText(a, b []byte, nameA, nameB string) string {
	if t := memberText(a, nameA); t != "" {
		return t
	}
	return memberText(b, nameB)
}

// claudeMetadata reads metadata.user_id in the two forms of Claude Code. Any other
// value there is a user, not a conversation.
func (r *reader) claudeMetadata() bool {
	return r.take(SourceClaudeMetadata, claudeSession(memberText(r.s.Raw(FieldMetadata), "user_id")))
}

// claudeSession returns the session in a user_id: the session_id of a JSON object,
// or what follows the last _session_ of the older form; "" for anything else.
func claudeSession(userID string) string {
	userID = strings.TrimSpace(userID)
	if strings.HasPrefix(userID, "{") {
		return memberText([]byte(userID), "session_id")
	}
	i := strings.LastIndex(userID, "_session_")
	if i < 0 {
		return ""
	}
	id := userID[i+len("_session_"):]
	for _, c := range []byte(id) {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' || c == '-') {
			return ""
		}
	}
	return id
}

// metadataNames are the members of metadata that name a conversation.
var metadataNames = [...]string{"session_id", "sessionId", "conversation_id", "chat_id", "thread_id"}

// sessionFields reads the session fields that gateways and engines define.
func (r *reader) sessionFields() bool {
	if r.take(SourceBodySession, r.s.Text(FieldSessionID)) {
		return true
	}
	if meta := r.s.Raw(FieldMetadata); meta != nil {
		for _, name := range metadataNames {
			if r.take(SourceMetadata, memberText(meta, name)) {
				return true
			}
		}
	}
	return r.take(SourceLitellm, r.s.Text(FieldLitellmSessionID)) ||
		r.take(SourceSessionParams, memberText(r.s.Raw(FieldSessionParams), "session_id"))
}

// optIn reads the sources that name a person or a request rather than a
// conversation, as far as the operator asked for them.
func (r *reader) optIn() bool {
	return r.o.User && r.take(SourceUser, r.s.Text(FieldUser)) ||
		r.o.Safety && r.take(SourceSafety, r.s.Text(FieldSafetyIdentifier)) ||
		r.o.MetadataUser && r.take(SourceMetadataUser, memberText(r.s.Raw(FieldMetadata), "user_id")) ||
		r.o.UserHeader && r.take(SourceUserHeader, r.hdr.v[hdrUserID]) ||
		r.o.Correlation && r.take(SourceCorrelation, r.hdr.v[hdrCorrelation]) ||
		r.o.ClientIP && r.take(SourceClientIP, addressOf(r.o.Client))
}

// addressOf returns the address of a client without its port; "" when there is none. The
// two ways to write one address of the older kind are one client.
func addressOf(client string) string {
	at, err := netip.ParseAddrPort(client)
	if err != nil {
		return ""
	}
	return at.Addr().Unmap().String()
}
