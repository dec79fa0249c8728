package proxy

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// Headers of ours on every answer.
const (
	headerRequest      = "X-Lmwarden-Request"      // id of the request, as in its record
	headerReplica      = "X-Lmwarden-Replica"      // replica that answers
	headerDecision     = "X-Lmwarden-Decision"     // class of the decision
	headerKeySource    = "X-Lmwarden-Key-Source"   // where the conversation key came from
	headerConversation = "X-Lmwarden-Conversation" // first 16 hex digits of the conversation
)

// headerRank names the rank that a vLLM data-parallel deployment shall use.
const headerRank = "X-Data-Parallel-Rank"

// hopHeaders belong to one connection and are never passed on (RFC 9110 §7.6.1).
var hopHeaders = map[string]bool{
	"Connection":          true,
	"Proxy-Connection":    true,
	"Keep-Alive":          true,
	"Proxy-Authenticate":  true,
	"Proxy-Authorization": true,
	"Te":                  true,
	"Trailer":             true,
	"Transfer-Encoding":   true,
	"Upgrade":             true,
}

// requestOnly are the client's headers that end at the proxy: its credentials, what
// the proxy answers itself (Expect), and what it states anew.
var requestOnly = map[string]bool{
	"Authorization":   true,
	"X-Api-Key":       true,
	"Expect":          true,
	"Content-Length":  true,
	"Accept-Encoding": true, // engines do not compress, and a compressed frame cannot be read
	headerRank:        true,
}

// copyHeaders adds to dst what src may pass on: no hop-by-hop header, none that the
// Connection header lists, none of drop.
func copyHeaders(dst, src http.Header, drop map[string]bool) {
	listed := connectionListed(src)
	for name, values := range src {
		if hopHeaders[name] || drop[name] || listed[name] {
			continue
		}
		if have := dst[name]; len(have) > 0 {
			dst[name] = append(have, values...)
		} else {
			dst[name] = slices.Clip(values) // shared: nobody changes a value in place
		}
	}
}

// connectionListed returns the headers that the sender declared hop-by-hop, or nil.
func connectionListed(h http.Header) map[string]bool {
	var listed map[string]bool
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name == "" {
				continue
			}
			if listed == nil {
				listed = make(map[string]bool)
			}
			listed[http.CanonicalHeaderKey(name)] = true
		}
	}
	return listed
}

// upstreamHeader returns the headers for the engine. Host is not among them: the
// request carries the engine's own.
func upstreamHeader(client http.Header, to *Replica, sendRank bool) http.Header {
	h := make(http.Header, len(client)+2)
	copyHeaders(h, client, requestOnly)
	if to.APIKey != "" {
		h.Set("Authorization", "Bearer "+to.APIKey)
	}
	if sendRank && to.Rank >= 0 {
		h.Set(headerRank, strconv.Itoa(to.Rank))
	}
	return h
}

// answerOnly are an engine's headers that the proxy states itself.
var answerOnly = map[string]bool{
	"Content-Length":   true,
	headerRequest:      true,
	headerReplica:      true,
	headerDecision:     true,
	headerKeySource:    true,
	headerConversation: true,
}

// bearer returns the key that a client presents: as a bearer token, or in x-api-key.
func bearer(h http.Header) string {
	const scheme = "bearer "
	if a := h.Get("Authorization"); len(a) > len(scheme) && strings.EqualFold(a[:len(scheme)], scheme) {
		return strings.TrimSpace(a[len(scheme):])
	}
	return strings.TrimSpace(h.Get("X-Api-Key"))
}

// clientProduct returns the first product of a user agent, for the history:
// "claude-cli/2.1.197".
func clientProduct(userAgent string) string {
	const longest = 64
	product, _, _ := strings.Cut(strings.TrimSpace(userAgent), " ")
	return clip(product, longest)
}

// clip returns a copy of a text of a client, of at most n bytes of valid UTF-8. It is a
// copy so that a name in the history does not keep the whole body that it stood in.
func clip(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.Clone(strings.ToValidUTF8(s, ""))
}
