package wire

import (
	"net/http"
	"strings"
)

// API is one of the known request surfaces. Its String is a closed set of names,
// fit for a metric label.
type API uint8

// The known surfaces. APIOther is everything else.
const (
	APIOther          API = iota
	APIChat               // POST /v1/chat/completions
	APICompletions        // POST /v1/completions
	APIResponses          // POST /v1/responses
	APIMessages           // POST /v1/messages
	APICountTokens        // POST /v1/messages/count_tokens
	APIResponseGet        // GET /v1/responses/{id}
	APIResponseCancel     // POST /v1/responses/{id}/cancel
	APIEmbeddings         // POST /v1/embeddings
	APIRerank             // POST /v1/rerank, /v2/rerank, /rerank
	APIScore              // POST /v1/score, /score
	APITokenize           // POST /tokenize
	APIDetokenize         // POST /detokenize
	APIAudio              // POST /v1/audio/...
	APIModels             // GET /v1/models and /v1/models/{name}
	APIProbe              // HEAD or GET / and /api/hello, sent by Claude Code before its first request
	NumAPIs               // number of surfaces, for arrays indexed by API
)

// apiNames are the metric labels, by API.
var apiNames = [NumAPIs]string{
	APIOther: "other", APIChat: "chat", APICompletions: "completions", APIResponses: "responses",
	APIMessages: "messages", APICountTokens: "count_tokens", APIResponseGet: "response_get",
	APIResponseCancel: "response_cancel", APIEmbeddings: "embeddings", APIRerank: "rerank",
	APIScore: "score", APITokenize: "tokenize", APIDetokenize: "detokenize", APIAudio: "audio",
	APIModels: "models", APIProbe: "probe",
}

// posts are the surfaces that are one fixed path, asked for with POST.
var posts = map[string]API{
	"/v1/chat/completions":      APIChat,
	"/v1/completions":           APICompletions,
	"/v1/responses":             APIResponses,
	"/v1/messages":              APIMessages,
	"/v1/messages/count_tokens": APICountTokens,
	"/v1/embeddings":            APIEmbeddings,
	"/v1/rerank":                APIRerank,
	"/v2/rerank":                APIRerank,
	"/rerank":                   APIRerank,
	"/v1/score":                 APIScore,
	"/score":                    APIScore,
	"/tokenize":                 APITokenize,
	"/detokenize":               APIDetokenize,
	"/v1/audio/transcriptions":  APIAudio,
	"/v1/audio/translations":    APIAudio,
	"/v1/audio/speech":          APIAudio,
}

// APIOf says which surface a request asks for. The path is given without its query
// (Claude Code sends ?beta=true). A known path with a method that it does not have
// is APIOther.
func APIOf(method, path string) API {
	switch method {
	case http.MethodPost:
		if a, ok := posts[path]; ok {
			return a
		}
		if id, ok := responsePath(path); ok && strings.HasSuffix(id, "/cancel") && strings.Count(id, "/") == 1 {
			return APIResponseCancel
		}
	case http.MethodGet, http.MethodHead:
		if path == "/" || path == "/api/hello" {
			return APIProbe
		}
		if path == "/v1/models" || strings.HasPrefix(path, "/v1/models/") {
			return APIModels
		}
		if id, ok := responsePath(path); ok && method == http.MethodGet && !strings.Contains(id, "/") {
			return APIResponseGet
		}
	}
	return APIOther
}

// Methods returns the methods of HTTP that a path of the API takes, as the header Allow
// lists them: "GET, HEAD". It is empty for a path that the API does not have.
func Methods(path string) string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
		if APIOf(method, path) != APIOther {
			allowed = append(allowed, method)
		}
	}
	return strings.Join(allowed, ", ")
}

// ResponseID returns the id in the path of APIResponseGet and APIResponseCancel, or
// "" for other paths.
func ResponseID(path string) string {
	rest, ok := responsePath(path)
	if !ok {
		return ""
	}
	id, tail, cut := strings.Cut(rest, "/")
	if cut && tail != "cancel" {
		return ""
	}
	return id
}

// responsePath cuts the fixed part off a path below /v1/responses/.
func responsePath(path string) (string, bool) {
	rest, ok := strings.CutPrefix(path, "/v1/responses/")
	return rest, ok && rest != "" && rest[0] != '/'
}

// String returns the name of the surface, one of a closed set.
func (a API) String() string {
	if a >= NumAPIs {
		a = APIOther
	}
	return apiNames[a]
}

// Generates says whether the surface makes tokens: its answers may stream, report
// usage and belong to a conversation.
func (a API) Generates() bool {
	switch a {
	case APIChat, APICompletions, APIResponses, APIMessages:
		return true
	}
	return false
}

// Ends says whether the streams of the surface have an end marker, without which one
// was cut.
func (a API) Ends() bool { return a.Generates() || a == APIResponseGet }

// Anthropic says whether the surface speaks Anthropic's shapes; the others speak
// OpenAI's.
func (a API) Anthropic() bool { return a == APIMessages || a == APICountTokens }
