package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// read parses a request as a server does, and fails when it is not exactly one.
func read(t *testing.T, raw []byte) (*http.Request, string) {
	t.Helper()
	in := bufio.NewReader(bytes.NewReader(raw))
	r, err := http.ReadRequest(in)
	if err != nil {
		t.Fatalf("%q is no request: %v", raw, err)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("%q has no whole body: %v", raw, err)
	}
	if rest, _ := io.ReadAll(in); len(rest) > 0 {
		t.Fatalf("%q is more than one request: %q is left", raw, rest)
	}
	return r, string(body)
}

// A request arrives as it was given; what frames it is the client's own.
func TestRequestIsSentAsItIs(t *testing.T) {
	to, err := parseAddress("http://engine:8000/behind")
	if err != nil {
		t.Fatal(err)
	}
	r := &Request{
		Method: "POST", Path: "/v1/a%20b", Query: "x=1&y= 2\t3\r\nz", Body: []byte("hello"),
		Header: http.Header{
			"Authorization": {"Bearer k"}, "X-Two": {"1", "2"}, "X-Text": {"caf\xc3\xa9 \xff\t."}, "X-Empty": {""}, "User-Agent": nil,
			"Host": {"other"}, "Connection": {"close"}, "Content-Length": {"99"}, "Transfer-Encoding": {"chunked"}, "Trailer": {"X"}, "Upgrade": {"h2c"},
		},
	}
	raw, err := r.appendHead(nil, to)
	if err != nil {
		t.Fatal(err)
	}
	got, body := read(t, append(raw, r.Body...))
	want := http.Header{"Authorization": {"Bearer k"}, "X-Two": {"1", "2"}, "X-Text": {"caf\xc3\xa9 \xff\t."}, "X-Empty": {""}, "Content-Length": {"5"}}
	if got.Method != "POST" || got.RequestURI != "/behind/v1/a%20b?x=1&y=%202%093%0D%0Az" || got.Host != "engine:8000" || body != "hello" {
		t.Errorf("got %s %s of %s with %q", got.Method, got.RequestURI, got.Host, body)
	}
	if !maps.EqualFunc(got.Header, want, slices.Equal) {
		t.Errorf("got headers %q, want %q", got.Header, want)
	}
}

// A length is stated where one is expected, also without a body.
func TestLengthWithoutABody(t *testing.T) {
	to, err := parseAddress("http://engine")
	if err != nil {
		t.Fatal(err)
	}
	for method, want := range map[string]bool{"POST": true, "PUT": true, "PATCH": true, "GET": false, "HEAD": false, "DELETE": false} {
		raw, err := (&Request{Method: method, Path: "/"}).appendHead(nil, to)
		if got := strings.Contains(string(raw), "Content-Length: 0\r\n"); err != nil || got != want {
			t.Errorf("%s: length stated: %t %v, want %t", method, got, err, want)
		}
	}
}

// What would be more than one request, or another one, is not sent.
func TestRequestsThatCannotBeSent(t *testing.T) {
	for name, r := range map[string]Request{
		"line break in a value":    {Method: "POST", Path: "/", Header: http.Header{"A": {"b\r\nC: d"}}},
		"bare line feed":           {Method: "POST", Path: "/", Header: http.Header{"A": {"b\nC: d"}}},
		"bare carriage return":     {Method: "POST", Path: "/", Header: http.Header{"A": {"b\rC: d"}}},
		"zero byte":                {Method: "POST", Path: "/", Header: http.Header{"A": {"b\x00"}}},
		"line break in a name":     {Method: "POST", Path: "/", Header: http.Header{"A: b\r\nC": {"d"}}},
		"blank in a name":          {Method: "POST", Path: "/", Header: http.Header{"Content-Length ": {"5"}}},
		"colon in a name":          {Method: "POST", Path: "/", Header: http.Header{"A:": {"5"}}},
		"no name":                  {Method: "POST", Path: "/", Header: http.Header{"": {"5"}}},
		"line break in the path":   {Method: "POST", Path: "/ HTTP/1.1\r\nA: b\r\n\r\n"},
		"blank in the path":        {Method: "POST", Path: "/a b"},
		"no path":                  {Method: "POST"},
		"path without a slash":     {Method: "POST", Path: "*"},
		"no method":                {Path: "/"},
		"line break in the method": {Method: "GET / HTTP/1.1\r\n", Path: "/"},
	} {
		r.Engine = "http://engine"
		var request *RequestError
		if _, err := New(Options{}).Do(t.Context(), &r); !errors.As(err, &request) {
			t.Errorf("%s: got %v, want a request that cannot be sent", name, err)
		}
	}
}

// FuzzRequest looks for a request that arrives as another one, or as two.
func FuzzRequest(f *testing.F) {
	f.Add("POST", "/v1/x", "a=b", "X-A", "value", []byte("body"))
	f.Add("GET", "/", " \r\n", "Content-Length", "7", []byte(nil))
	f.Add("POST", "/a\r\n", "", "A\r\nB", "c\r\n\r\nGET / HTTP/1.1", []byte("GET / HTTP/1.1\r\n\r\n"))
	to, err := parseAddress("http://engine")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, method, path, query, name, value string, body []byte) {
		name = http.CanonicalHeaderKey(name)
		r := &Request{Method: method, Path: path, Query: query, Header: http.Header{name: {value}}, Body: body}
		raw, err := r.appendHead(nil, to)
		if err != nil {
			return
		}
		if _, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(raw))); err != nil && strings.Contains(err.Error(), "parse") {
			return // a path that no server takes, such as one with a bad escape
		}
		got, gotBody := read(t, append(raw, body...))
		if got.Method != method || got.Host != "engine" || gotBody != string(body) || !strings.HasPrefix(got.RequestURI, path) {
			t.Errorf("%q arrives as %s %s of %s with %q", raw, got.Method, got.RequestURI, got.Host, gotBody)
		}
		for key, values := range got.Header {
			if key != "Content-Length" && (key != name || len(values) != 1 || values[0] != strings.Trim(value, " \t")) {
				t.Errorf("%q arrives with %s: %q", raw, key, values)
			}
		}
	})
}
