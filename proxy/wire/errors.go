package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// openAIError is vLLM's error envelope for the OpenAI surfaces.
type openAIError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    int     `json:"code"`
	} `json:"error"`
}

// anthropicError is the error envelope of the messages surface.
type anthropicError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// responsesError is the error event of a responses stream.
type responsesError struct {
	Type    string  `json:"type"`
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Seq     int     `json:"sequence_number"`
}

// ErrorType returns the error type that fits a status in the surface's own words:
// vLLM's names for the OpenAI surfaces, Anthropic's for messages.
func ErrorType(api API, status int) string {
	if api.Anthropic() {
		return anthropicType(status)
	}
	switch status {
	case http.StatusUnauthorized:
		return "AuthenticationError"
	case http.StatusForbidden:
		return "PermissionDeniedError"
	case http.StatusNotFound:
		return "NotFoundError"
	case http.StatusMethodNotAllowed:
		return "MethodNotAllowedError"
	case http.StatusRequestTimeout:
		return "RequestTimeoutError"
	case http.StatusConflict:
		return "ConflictError"
	case http.StatusRequestEntityTooLarge:
		return "RequestTooLargeError"
	case http.StatusUnprocessableEntity:
		return "UnprocessableEntityError"
	case http.StatusTooManyRequests:
		return "RateLimitError"
	case http.StatusNotImplemented:
		return "NotImplementedError"
	case http.StatusBadGateway:
		return "BadGatewayError"
	case http.StatusServiceUnavailable, statusOverloaded:
		return "ServiceUnavailableError"
	case http.StatusGatewayTimeout:
		return "GatewayTimeoutError"
	}
	if status >= 500 {
		return "InternalServerError"
	}
	return "BadRequestError"
}

// statusOverloaded is Anthropic's own status for "try again later".
const statusOverloaded = 529

// anthropicType returns Anthropic's name of a status.
func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return "timeout_error"
	case http.StatusServiceUnavailable, statusOverloaded:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// ErrorBody returns the JSON error of a whole answer, in the surface's own shape.
// Param names the request field at fault; "" becomes null, and Anthropic's shape
// has no such field. The content type is application/json.
func ErrorBody(api API, status int, message, param string) []byte {
	if api.Anthropic() {
		e := anthropicError{Type: "error"}
		e.Error.Type, e.Error.Message = ErrorType(api, status), message
		return mustJSON(e)
	}
	var e openAIError
	e.Error.Message, e.Error.Type, e.Error.Code = message, ErrorType(api, status), status
	if param != "" {
		e.Error.Param = &param
	}
	return mustJSON(e)
}

// ErrorFrame returns one SSE error event in the surface's own shape. It never
// contains an end marker: a stream that ends with it must not look complete. When
// the client has been given an unfinished frame ([Stream.MidFrame]), send a blank
// line first. Sequence is the number of the event where events have one, [State.Sequence].
func ErrorFrame(api API, sequence, status int, message string) []byte {
	switch {
	case api.Anthropic():
		return frame("error", ErrorBody(api, status, message, ""))
	case api == APIResponses, api == APIResponseGet:
		return frame("error", mustJSON(responsesError{Type: "error", Code: ErrorType(api, status), Message: message, Seq: sequence}))
	}
	return frame("", ErrorBody(api, status, message, ""))
}

// ErrorEvent returns the error that an engine answered, a JSON body, as one SSE event in
// the surface's own shape: for an error that comes when the headers of a stream are out.
func ErrorEvent(api API, status int, body []byte) []byte {
	if api == APIResponses || api == APIResponseGet {
		said, _ := member(body, "error")
		return ErrorFrame(APIResponses, 0, status, memberText(said, "message"))
	}
	var b bytes.Buffer
	if json.Compact(&b, body) != nil {
		return ErrorFrame(api, 0, status, string(body))
	}
	if api.Anthropic() {
		return frame("error", b.Bytes())
	}
	return frame("", b.Bytes())
}

var (
	pingComment = []byte(": ping\n\n")
	pingEvent   = []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")
)

// Ping returns the bytes that keep a silent stream open in the surface's own way:
// an SSE comment, or Anthropic's ping event. The slice is shared; do not change it.
func Ping(api API) []byte {
	if api.Anthropic() {
		return pingEvent
	}
	return pingComment
}

// frame builds one SSE frame.
func frame(event string, data []byte) []byte {
	b := make([]byte, 0, len(event)+len(data)+20)
	if event != "" {
		b = append(append(append(b, "event: "...), event...), '\n')
	}
	return append(append(append(b, "data: "...), data...), "\n\n"...)
}

// mustJSON encodes one of our own envelopes, which cannot fail.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("wire: an error envelope cannot be encoded: " + err.Error())
	}
	return b
}
