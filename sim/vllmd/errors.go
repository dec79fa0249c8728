package vllmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// apiError is an error with the fields of vLLM's envelope.
type apiError struct {
	status int
	kind   string // "BadRequestError"; "Bad Request" when the body did not validate
	msg    string
	param  string // "" is null
}

func (e *apiError) Error() string { return e.msg }

// invalid is what the validation of a body says.
func invalid(param, msg string) *apiError {
	return &apiError{http.StatusBadRequest, "Bad Request", "1 validation error:\n  " + msg, param}
}

// badRequest is what a valid body with impossible wishes gets.
func badRequest(param, format string, args ...any) *apiError {
	return &apiError{http.StatusBadRequest, "BadRequestError", fmt.Sprintf(format, args...), param}
}

// internal is what an engine in trouble gives.
func internal(err error) *apiError {
	return &apiError{http.StatusInternalServerError, "InternalServerError", err.Error(), ""}
}

// asAPIError gives any error an envelope.
func asAPIError(err error) *apiError {
	var e *apiError
	if errors.As(err, &e) {
		return e
	}
	return internal(err)
}

// validation is true for errors that keep the OpenAI shape in every API.
func (e *apiError) validation() bool { return e.kind == "Bad Request" }

// openAI renders the envelope of the OpenAI APIs.
func (e *apiError) openAI() []byte {
	var param any
	if e.param != "" {
		param = e.param
	}
	type inner struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Param   any    `json:"param"`
		Code    int    `json:"code"`
	}
	return mustJSON(struct {
		Error inner `json:"error"`
	}{inner{e.msg, e.kind, param, e.status}})
}

// anthropic renders the envelope of the messages API.
func (e *apiError) anthropic() []byte {
	type inner struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	return mustJSON(struct {
		Type  string `json:"type"`
		Error inner  `json:"error"`
	}{"error", inner{e.kind, e.msg}})
}

// mustJSON encodes a value of this package's own types, without HTML escapes.
func mustJSON(v any) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("vllmd: encode: " + err.Error()) // a type that JSON cannot hold: a bug here
	}
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}

// pyFloat is a number that is encoded as Python does it: whole ones with a fraction.
type pyFloat float64

// MarshalJSON writes the number.
func (f pyFloat) MarshalJSON() ([]byte, error) { return []byte(pyNumber(float64(f))), nil }

// writeJSON answers with a whole JSON body.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", fmt.Sprint(len(body)))
	w.WriteHeader(status)
	// A failed write means that the client has gone; there is nobody to tell.
	_, _ = w.Write(body)
}

// writeDetail answers as the HTTP framework itself does.
func writeDetail(w http.ResponseWriter, status int, detail string) {
	writeJSON(w, status, []byte(`{"detail":"`+detail+`"}`))
}

// decodeError explains a body that could not be decoded.
func decodeError(err error, body []byte) *apiError {
	var syntax *json.SyntaxError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		loc := "body"
		if wrong.Field != "" {
			loc += "." + wrong.Field
		}
		return invalid(loc, fmt.Sprintf("{'type': '%[1]s_type', 'loc': '%[2]s', 'msg': 'Input should be a valid %[1]s', 'input': '<%[3]s>'}", pyType(wrong.Type.Kind().String()), loc, wrong.Value))
	case errors.As(err, &syntax):
		loc := fmt.Sprintf("body.%d", max(0, syntax.Offset-1))
		return invalid(loc, fmt.Sprintf("{'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}", loc))
	default:
		loc := fmt.Sprintf("body.%d", len(body))
		return invalid(loc, fmt.Sprintf("{'type': 'json_invalid', 'loc': '%s', 'msg': 'JSON decode error', 'input': '<dict of 0 items>', 'ctx': {'error': 'Expecting value'}}", loc))
	}
}

// pyType names a Go kind as the validator of the original does.
func pyType(k string) string {
	switch {
	case k == "slice":
		return "list"
	case k == "struct", k == "map":
		return "dict"
	case strings.HasPrefix(k, "int"):
		return "integer"
	case strings.HasPrefix(k, "float"):
		return "float"
	case k == "bool":
		return "boolean"
	default:
		return k
	}
}

// missing says that a required field is not there.
func missing(field string, body map[string]json.RawMessage) *apiError {
	return invalid("body."+field, fmt.Sprintf("{'type': 'missing', 'loc': 'body.%s', 'msg': 'Field required', 'input': '<dict of %d items>'}", field, len(body)))
}
