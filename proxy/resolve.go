package proxy

import (
	"strings"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// authorize finds out whose request it is, from the key in either of the two shapes.
func (x *exchange) authorize() error {
	if x.p.isClosed() {
		return errClosing
	}
	tenant, ok := x.table.tenant(bearer(x.r.Header))
	if !ok {
		return errUnauthorized
	}
	x.tenant = tenant
	return nil
}

// resolve scans the body and finds the model that serves the request.
func (x *exchange) resolve() error {
	if x.api == wire.APIAudio && strings.HasPrefix(x.r.Header.Get("Content-Type"), "multipart/") {
		name, err := formModel(x.r.Header.Get("Content-Type"), x.body)
		if err != nil {
			return err
		}
		x.requested, x.form = name, true
	} else {
		if err := x.scan.Scan(x.body); err != nil {
			return err
		}
		if !nameable(x.scan.Raw(wire.FieldModel)) {
			return errModelType
		}
		x.requested = x.scan.Model()
		x.streaming = x.api.Generates() && x.scan.Stream()
	}
	if len(x.requested) > longestName { // no model's name, though a wildcard may match it
		return &unknownModelError{clip(x.requested, longestName), x.table.names}
	}
	x.model = x.table.lookup(wire.CutContextSuffix(x.requested))
	if x.model == nil {
		return &unknownModelError{x.requested, x.table.names}
	}
	return nil
}

// nameable says whether a value can name a model: text, or nothing.
func nameable(raw []byte) bool {
	return len(raw) == 0 || raw[0] == '"' || string(raw) == "null"
}

// upstreamBody returns the body for the engine: the client's own, with the name that
// the engine knows and a request for usage where the client made none.
func (x *exchange) upstreamBody() ([]byte, error) {
	served := ""
	if x.renamed() {
		served = x.model.name
	}
	if x.form {
		return setFormModel(x.r.Header.Get("Content-Type"), x.body, served)
	}
	if x.scan.Body() == nil {
		return x.body, nil // it names no model
	}
	body, added := wire.Rewrite(x.api, &x.scan, wire.Edit{
		Model: served, IncludeUsage: true, MaxTokens: x.maxTokens(), StripAttribution: x.model.stripsAttribution(),
	})
	x.dropped = added
	return body, nil
}

// renamed says whether the client calls the model by another name than the engine.
func (x *exchange) renamed() bool { return x.requested != "" && x.requested != x.model.name }
