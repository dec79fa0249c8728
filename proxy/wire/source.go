package wire

// Source says where the key of a conversation came from. Its String is a closed set
// of names, fit for a metric label.
type Source uint8

// The sources, in order of precedence.
const (
	SourceNone Source = iota
	SourceOwn
	SourceExtra
	SourceClaudeHeader
	SourceCodexThread
	SourceAmp
	SourceOpencode
	SourceDeepseek
	SourceGrokConv
	SourceGrokSession
	SourceOpenWebUI
	SourceOpenclaw
	SourceSessionAffinity
	SourceXSessionID
	SourceSessionID
	SourceSessionUnderscore
	SourceXAffinity
	SourceAgentSession
	SourceXConversation
	SourceConversationUnderscore
	SourceConversationHeader
	SourceXChat
	SourceXThread
	SourcePiRequest
	SourceConversation
	SourceClientMetadata
	SourceClaudeMetadata
	SourceBodySession
	SourceMetadata
	SourceLitellm
	SourceSessionParams
	SourcePromptCacheKey
	SourceUser
	SourceSafety
	SourceMetadataUser
	SourceUserHeader
	SourceCorrelation
	SourceClientIP
	SourcePreviousResponse
	SourceChain
	NumSources // number of sources, for arrays indexed by Source
)

var sourceNames = [NumSources]string{
	SourceNone: "none", SourceOwn: "own", SourceExtra: "extra-header",
	SourceClaudeHeader: "cc-header", SourceCodexThread: "codex-thread", SourceAmp: "amp-thread",
	SourceOpencode: "opencode-session", SourceDeepseek: "deepseek-session",
	SourceGrokConv: "grok-conv", SourceGrokSession: "grok-session",
	SourceOpenWebUI: "openwebui-chat", SourceOpenclaw: "openclaw-session",
	SourceSessionAffinity: "x-session-affinity", SourceXSessionID: "x-session-id",
	SourceSessionID: "session-id", SourceSessionUnderscore: "session_id-header",
	SourceXAffinity: "x-affinity", SourceAgentSession: "agent-session-id",
	SourceXConversation: "x-conversation-id", SourceConversationUnderscore: "conversation_id",
	SourceConversationHeader: "conversation-id", SourceXChat: "x-chat-id", SourceXThread: "x-thread-id",
	SourcePiRequest: "pi-request-id", SourceConversation: "conversation",
	SourceClientMetadata: "client_metadata", SourceClaudeMetadata: "cc-metadata",
	SourceBodySession: "session_id", SourceMetadata: "metadata", SourceLitellm: "litellm_session_id",
	SourceSessionParams: "session_params", SourcePromptCacheKey: "prompt_cache_key",
	SourceUser: "user", SourceSafety: "safety_identifier", SourceMetadataUser: "metadata-user_id",
	SourceUserHeader: "x-user-id", SourceCorrelation: "x-correlation-id", SourceClientIP: "client-ip",
	SourcePreviousResponse: "previous_response_id", SourceChain: "chain",
}

// String returns the name of the source, one of a closed set.
func (s Source) String() string {
	if s >= NumSources {
		s = SourceNone
	}
	return sourceNames[s]
}

// Kind is what a request is within its client's session. The values are those of
// route.Kind.
type Kind uint8

// The kinds of request.
const (
	KindMain  Kind = iota // a turn of a main conversation
	KindAgent             // a turn of a subagent's conversation
	KindSide              // a title, probe, token count or classifier; makes and moves no pin
)

// String returns "main", "agent" or "side".
func (k Kind) String() string {
	switch k {
	case KindAgent:
		return "agent"
	case KindSide:
		return "side"
	}
	return "main"
}
