package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestErrorBodyShapes(t *testing.T) {
	got := string(ErrorBody(APIChat, 404, "The model `x` does not exist.", "model"))
	if want := "{\"error\":{\"message\":\"The model `x` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"; got != want {
		t.Errorf("chat: %s", got)
	}
	got = string(ErrorBody(APIOther, 413, `a "b"`, ""))
	if want := `{"error":{"message":"a \"b\"","type":"RequestTooLargeError","param":null,"code":413}}`; got != want {
		t.Errorf("other: %s", got)
	}
	got = string(ErrorBody(APIMessages, 429, "later", "ignored"))
	if want := `{"type":"error","error":{"type":"rate_limit_error","message":"later"}}`; got != want {
		t.Errorf("messages: %s", got)
	}
}

// An engine's own error becomes an event of the surface that its client speaks.
func TestErrorEvent(t *testing.T) {
	const openAI = "{\n \"error\": {\"message\": \"no\", \"code\": 400}}"
	for _, c := range []struct {
		api        API
		body, want string
	}{
		{APIChat, openAI, "data: {\"error\":{\"message\":\"no\",\"code\":400}}\n\n"},
		{APIMessages, `{"type":"error","error":{"message":"no"}}`, "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no\"}}\n\n"},
		{APIResponses, openAI, "event: error\ndata: {\"type\":\"error\",\"code\":\"BadRequestError\",\"message\":\"no\",\"param\":null,\"sequence_number\":0}\n\n"},
		{APIChat, "no\njson", "data: {\"error\":{\"message\":\"no\\njson\",\"type\":\"BadRequestError\",\"param\":null,\"code\":400}}\n\n"},
	} {
		if got := string(ErrorEvent(c.api, 400, []byte(c.body))); got != c.want {
			t.Errorf("%v: got %q, want %q", c.api, got, c.want)
		}
	}
}

// A stored response is streamed in the shape of the responses surface.
func TestStreamOfStoredResponse(t *testing.T) {
	s := NewStream(APIResponseGet, StreamOptions{})
	s.Write([]byte("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n"))
	if got := s.State(); got.First || got.Done || got.ResponseID != "resp_1" {
		t.Errorf("after the announcement: %+v", got)
	}
	s.Write([]byte("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\"usage\":{\"input_tokens\":7}}}\n\n"))
	if got := s.State(); !got.Done || got.Usage.Prompt != 7 {
		t.Errorf("at the end: %+v", got)
	}
}

func TestErrorTypesFitTheStatus(t *testing.T) {
	for _, tc := range []struct {
		status            int
		openAI, anthropic string
	}{
		{400, "BadRequestError", "invalid_request_error"},
		{401, "AuthenticationError", "authentication_error"},
		{403, "PermissionDeniedError", "permission_error"},
		{404, "NotFoundError", "not_found_error"},
		{408, "RequestTimeoutError", "timeout_error"},
		{413, "RequestTooLargeError", "request_too_large"},
		{418, "BadRequestError", "invalid_request_error"},
		{422, "UnprocessableEntityError", "invalid_request_error"},
		{429, "RateLimitError", "rate_limit_error"},
		{500, "InternalServerError", "api_error"},
		{502, "BadGatewayError", "api_error"},
		{503, "ServiceUnavailableError", "overloaded_error"},
		{504, "GatewayTimeoutError", "timeout_error"},
		{529, "ServiceUnavailableError", "overloaded_error"},
	} {
		if got := ErrorType(APIChat, tc.status); got != tc.openAI {
			t.Errorf("%d: %s, want %s", tc.status, got, tc.openAI)
		}
		if got := ErrorType(APICountTokens, tc.status); got != tc.anthropic {
			t.Errorf("%d: %s, want %s", tc.status, got, tc.anthropic)
		}
	}
}

func TestErrorFrameIsReadAsAnErrorAndNoEnd(t *testing.T) {
	for api := range NumAPIs {
		f := ErrorFrame(api, 0, 502, "the replica\n\nended the answer early")
		if bytes.Contains(f, []byte("[DONE]")) || !bytes.HasSuffix(f, []byte("\n\n")) {
			t.Errorf("%v: %q", api, f)
		}
		s := NewStream(api, StreamOptions{})
		feed(s, string(f), 1)
		if st := s.State(); !st.Failed || st.Done || st.First || st.Finish {
			t.Errorf("%v: read as %+v", api, st)
		}
		var e event
		e.parse(f)
		if !json.Valid(e.data) || !strings.Contains(string(e.data), "ended the answer early") {
			t.Errorf("%v: data %q", api, e.data)
		}
	}
	if f := string(ErrorFrame(APIMessages, 0, 503, "x")); !strings.HasPrefix(f, "event: error\n") {
		t.Errorf("messages: %q", f)
	}
}

func TestPingIsNoToken(t *testing.T) {
	for api := range NumAPIs {
		s := NewStream(api, StreamOptions{})
		p := string(Ping(api))
		if got := feed(s, p, 1); got != p || s.State() != (State{Usage: NoUsage()}) {
			t.Errorf("%v: %q read as %+v", api, got, s.State())
		}
	}
}
