package proxy

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// modelEntry is one name in the list of models, in the shapes of OpenAI, vLLM and
// Anthropic at once: their clients read the members that they know.
type modelEntry struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	Root        string `json:"root"` // the model behind an alias
	MaxModelLen *int   `json:"max_model_len"`
	Type        string `json:"type"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

// modelList is the list of models.
type modelList struct {
	Object  string       `json:"object"`
	Data    []modelEntry `json:"data"`
	HasMore bool         `json:"has_more"`
	FirstID *string      `json:"first_id"`
	LastID  *string      `json:"last_id"`
}

// answerModels lists the names that a client may ask for, or tells of one of them.
// Aliases that are patterns are not listed, but answer for a name that fits.
func (x *exchange) answerModels() error {
	if err := x.authorize(); err != nil {
		return err
	}
	if x.r.Header.Get("Anthropic-Version") != "" {
		x.api = wire.APIMessages // for the shape of an error; it is no call all the same
		x.local = true
	}
	name, one := strings.CutPrefix(x.r.URL.EscapedPath(), "/v1/models/")
	if !one {
		return x.answerJSON(http.StatusOK, x.table.list())
	}
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	m := x.table.lookup(wire.CutContextSuffix(name))
	if m == nil || (m == x.table.fallback && !x.table.claims(name)) {
		return &unknownModelError{name, x.table.names}
	}
	return x.answerJSON(http.StatusOK, x.table.entry(name, m))
}

// claims says whether a name is one of a model's own, not only served by default.
func (t *table) claims(name string) bool {
	name = wire.CutContextSuffix(name)
	return t.exact[name] != nil ||
		slices.ContainsFunc(t.wild, func(w wildcard) bool { return strings.HasPrefix(name, w.beginning) })
}

// list returns the list of models: each name, followed by its aliases.
func (t *table) list() modelList {
	l := modelList{Object: "list", Data: []modelEntry{}}
	for i := range t.snapshot.Models {
		spec := &t.snapshot.Models[i]
		m := t.named[spec.Name]
		for _, name := range append([]string{spec.Name}, spec.Aliases...) {
			if !strings.HasSuffix(name, "*") && t.exact[name] == m {
				l.Data = append(l.Data, t.entry(name, m))
			}
		}
	}
	if n := len(l.Data); n > 0 {
		l.FirstID, l.LastID = &l.Data[0].ID, &l.Data[n-1].ID
	}
	return l
}

// entry returns what is told of one name.
func (t *table) entry(name string, m *model) modelEntry {
	e := modelEntry{ID: name, Object: "model", OwnedBy: "lmwarden", Root: m.name, Type: "model", DisplayName: name}
	for i := range t.snapshot.Models {
		spec := &t.snapshot.Models[i]
		if spec.Name != m.name {
			continue
		}
		if !spec.Created.IsZero() {
			e.Created = spec.Created.Unix()
		}
		if spec.MaxModelLen > 0 {
			e.MaxModelLen = &spec.MaxModelLen
		}
	}
	e.CreatedAt = time.Unix(e.Created, 0).UTC().Format(time.RFC3339)
	return e
}

// answerProbe answers what Claude Code asks before its first request: whether anybody
// is there.
func (x *exchange) answerProbe() error {
	return x.answerJSON(http.StatusOK, map[string]string{"service": "lmwarden", "models": "/v1/models"})
}

// answerOther answers GET /health, which tells of the proxy itself and of no engine,
// and refuses the rest.
func (x *exchange) answerOther() error {
	path := x.r.URL.Path
	if allow := wire.Methods(path); path != "/health" && allow != "" {
		return &methodError{x.r.Method, path, allow}
	}
	if path != "/health" {
		return errUnknownPath
	}
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return &methodError{x.r.Method, path, "GET, HEAD"}
	}
	if x.p.isClosed() {
		return errClosing
	}
	return x.answerJSON(http.StatusOK, map[string]string{"status": "ok"})
}

// answerJSON answers with a document of our own.
func (x *exchange) answerJSON(status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	x.reply.header(status, func(h http.Header) {
		h.Set(headerRequest, x.id)
		h.Set("Content-Type", "application/json")
		h.Set("Content-Length", strconv.Itoa(len(body)))
	})
	return x.reply.write(body, false)
}

// responseID returns the id of the stored response that a path names.
func responseID(r *http.Request) string { return wire.ResponseID(r.URL.Path) }
