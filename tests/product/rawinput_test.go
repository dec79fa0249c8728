package product

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRawRequests sends what no library would: each is answered once, with a status that
// says what is wrong, or as a good request, and leaves nothing in flight.
func TestRawRequests(t *testing.T) {
	d := startBox(t, 1)
	body := `{"model":"` + model + `","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`
	sized := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	chunked := func(extension, trailer string) string {
		return fmt.Sprintf("%x%s\r\n%s\r\n0\r\n%s\r\n", len(body), extension, body, trailer)
	}
	const smuggled = "GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for _, tc := range []struct {
		name    string
		line    string // the chat endpoint when empty
		headers string
		body    string
		status  int
	}{
		{name: "a good one", headers: sized, body: body, status: 200},
		{name: "a length and chunks", headers: sized + "Transfer-Encoding: chunked\r\n", body: "0\r\n\r\n" + smuggled, status: 400},
		{name: "two lengths", headers: sized + "Content-Length: 5\r\n", body: body, status: 400},
		{name: "a length with a sign", headers: strings.Replace(sized, ": ", ": +", 1), body: body, status: 400},
		{name: "a coding of nobody", headers: "Transfer-Encoding: xchunked\r\n", body: chunked("", ""), status: 501},
		{name: "chunks with extensions and a trailer", headers: "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n", body: chunked(`;a="b"`, "X-T: 1\r\n"), status: 200},
		{name: "chunks without a size", headers: "Transfer-Encoding: chunked\r\n", body: "zz\r\n", status: 400},
		{name: "a chunk over all sizes", headers: "Transfer-Encoding: chunked\r\n", body: "ffffffffffffffffff\r\n", status: 400},
		{name: "a header with a NUL", headers: sized + "X-Session-Id: a\x00b\r\n", body: body, status: 400},
		{name: "a header that is no ASCII", headers: sized + "X-Session-Id: gespr\xe4ch\r\n", body: body, status: 200},
		{name: "the body announced", headers: sized + "Expect: 100-continue\r\n", body: body, status: 200},
		{name: "an expectation of nobody", headers: sized + "Expect: a-pony\r\n", body: body, status: 417},
		{name: "a wish for websockets", headers: sized + "Connection: Upgrade\r\nUpgrade: websocket\r\n", body: body, status: 200},
		{name: "a compressed body", headers: sized + "Content-Encoding: gzip\r\n", body: body, status: 415},
		{name: "another host in the target", line: "POST http://elsewhere/v1/chat/completions HTTP/1.1", headers: sized, body: body, status: 421},
		{name: "a tunnel", line: "CONNECT elsewhere:443 HTTP/1.1", status: 421},
		{name: "a trace", line: "TRACE /v1/chat/completions HTTP/1.1", status: 405},
		{name: "a path of the engine's own", line: "POST /sleep?level=1 HTTP/1.1", headers: "Content-Length: 0\r\n", status: 404},
		{name: "a path out of the API", line: "GET /v1/../metrics HTTP/1.1", status: 404},
		{name: "an id with a line in it", line: "GET /v1/responses/a%0d%0aX:%20y HTTP/1.1", status: 404},
		{name: "a version to come", line: "POST /v1/chat/completions HTTP/3.0", headers: sized, body: body, status: 505},
	} {
		t.Run(tc.name, func(t *testing.T) {
			line := tc.line
			if line == "" {
				line = "POST /v1/chat/completions HTTP/1.1"
			}
			status, rest := rawAnswer(t, d.InferenceURL, line+"\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"+tc.headers+"\r\n"+tc.body)
			if status != tc.status {
				t.Errorf("status %d, want %d", status, tc.status)
			}
			if rest != "" {
				t.Errorf("behind the answer came %.200q", rest)
			}
		})
	}
	if held := card(t, d).GetInFlight(); held != 0 {
		t.Errorf("%d requests are in flight when all have been answered", held)
	}
}

// rawAnswer writes a request as it stands and returns the status of its answer, and what
// came behind that until the end of the connection.
func rawAnswer(t *testing.T, url, request string) (status int, rest string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	go io.WriteString(conn, request) // it may be refused before it is read to its end
	in := bufio.NewReader(conn)
	answer, err := http.ReadResponse(in, nil)
	if err == nil && answer.StatusCode == http.StatusContinue {
		answer, err = http.ReadResponse(in, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // a refusal before the end of the request may be cut
	more, _ := io.ReadAll(in)               // as above
	return answer.StatusCode, string(more)
}
