package upstream

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
)

// Request is what an engine is sent.
type Request struct {
	// Engine is the address: "http://127.0.0.1:8000".
	Engine string
	// Method of the request: "POST".
	Method string
	// Path, escaped, with a slash at its beginning.
	Path string
	// Query without its question mark; may be empty. Blanks and control characters in it
	// are escaped.
	Query string
	// Header is sent as it is, but for Host, Connection and what frames the body: those
	// are the client's own. Names are in canonical form. It must not be changed before
	// Do has returned.
	Header http.Header
	// Body is sent whole, with its length. It must not be changed before Do has returned.
	Body []byte
	// Lent is set by Do when it returns an answer that came before the engine had taken the
	// whole request. Body may then be read beside the answer, and for a moment after that
	// was closed, and must never be changed. In all other cases it is the caller's again.
	Lent bool
}

// own are the headers that say how a message is framed or where its connection ends.
// One of the caller's beside the client's would make one request look like two.
var own = map[string]bool{
	"Host":              true,
	"Connection":        true,
	"Content-Length":    true,
	"Transfer-Encoding": true,
	"Trailer":           true,
	"Upgrade":           true,
}

// appendHead appends the request line and the headers. It fails when that would not be
// one request: a name or a value with a line break, for example.
func (r *Request) appendHead(b []byte, to *address) ([]byte, error) {
	if !isToken(r.Method) {
		return b, fmt.Errorf("the method %q cannot be sent", r.Method)
	}
	b = append(b, r.Method...)
	b = append(b, ' ')
	start := len(b)
	b = append(b, to.prefix...)
	b = append(b, r.Path...)
	if r.Query != "" {
		b = append(b, '?')
		b = appendQuery(b, r.Query)
	}
	if len(b) == start || b[start] != '/' {
		return b, fmt.Errorf("the path %q cannot be sent: it must begin with a slash", r.Path)
	}
	for _, c := range b[start:] {
		if c <= ' ' || c == 0x7f {
			return b, fmt.Errorf("the path %q cannot be sent: blanks and control characters have to be escaped", r.Path)
		}
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, to.host...)
	b = append(b, "\r\n"...)
	for name, values := range r.Header {
		if own[name] || len(values) == 0 {
			continue
		}
		if !isToken(name) {
			return b, fmt.Errorf("the header %q cannot be sent: that is no name", name)
		}
		for _, value := range values {
			if !isValue(value) {
				return b, fmt.Errorf("the header %s cannot be sent: its value has control characters", name)
			}
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
			b = append(b, "\r\n"...)
		}
	}
	if len(r.Body) > 0 || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(len(r.Body)), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), nil
}

// appendQuery appends a query. Other than a path it comes as the client wrote it, and
// over HTTP/2 that may hold what would end the request line.
func appendQuery(b []byte, query string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c == 0x7f {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// tokens are the bytes of a token (RFC 9110 §5.6.2).
var tokens = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// isToken says whether a text may be a method or the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		if !tokens[s[i]] {
			return false
		}
	}
	return s != ""
}

// isValue says whether a text may be the value of a header: no line break, and no other
// control character but a tab.
func isValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// head is a buffer for the head of a request.
type head struct{ b []byte }

// Bounds of the buffers that are kept for heads, in bytes.
const (
	firstHead   = 1 << 10
	longestHead = 16 << 10
)

var heads sync.Pool

// takeHead returns an empty buffer.
func takeHead() *head {
	if h, ok := heads.Get().(*head); ok {
		return h
	}
	return &head{make([]byte, 0, firstHead)}
}

// put gives the buffer back; nil is nobody's.
func (h *head) put() {
	if h != nil && cap(h.b) <= longestHead {
		h.b = h.b[:0]
		heads.Put(h)
	}
}
