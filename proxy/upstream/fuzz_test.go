package upstream

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"
)

// answersOnce returns a dialer to an engine that answers the first request with these
// bytes and closes the connection.
func answersOnce(raw []byte) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			if _, err := http.ReadRequest(bufio.NewReader(theirs)); err == nil {
				_, _ = theirs.Write(raw) // a client that has read enough closes
			}
		}()
		return ours, nil
	}
}

// FuzzAnswer compares with what net/http's own client makes of the same bytes: the
// status, the headers, the body, and whether it came to a clean end.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		ok, ok + "!", chunked + "2\r\nab\r\n0\r\n\r\n", chunked + "2\r\nab\r\n", chunked + "2\r\nab\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nabc", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
		"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n" + ok,
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", "HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nab", "\r\n" + ok, "garbage",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n1;x\r\na\r\n0\r\n\r\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, raw []byte, head bool) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		transport := &http.Transport{DialContext: answersOnce(raw), DisableCompression: true, DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://engine/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := transport.RoundTrip(r)
		want := got{err: err}
		if err == nil {
			body, cut := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			want = got{status: resp.StatusCode, header: resp.Header, body: string(body), cut: cut}
		}
		if want.err == nil && (want.status < 100 || want.status == http.StatusSwitchingProtocols) {
			return // which we refuse
		}
		cl := New(Options{DialContext: answersOnce(raw), IdleTimeout: time.Minute, MaxIdle: 1})
		defer cl.CloseIdleConnections()
		got := cl.do(t.Context(), &Request{Engine: "http://engine", Method: method, Path: "/"})
		if (got.err == nil) != (want.err == nil) || got.status != want.status || got.body != want.body || (got.cut == nil) != (want.cut == nil) {
			t.Errorf("%q: got %d %q %v %v, want %d %q %v %v", raw, got.status, got.body, got.err, got.cut, want.status, want.body, want.err, want.cut)
		}
		if got.err == nil && !maps.EqualFunc(got.header, want.header, slices.Equal) {
			t.Errorf("%q: got headers %q, want %q", raw, got.header, want.header)
		}
		if why := notToKeep(raw, method); cl.unused() > 0 && why != "" {
			t.Errorf("%q: the connection is kept, and %s", raw, why)
		}
	})
}

// notToKeep says why no other request may follow on the connection of an answer; "" when
// one may.
func notToKeep(raw []byte, method string) string {
	in := bufio.NewReaderSize(bytes.NewReader(raw), max(len(raw), 1))
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return "there is no answer"
		}
		if resp.StatusCode < http.StatusOK {
			continue
		}
		_, err = io.Copy(io.Discard, resp.Body)
		switch {
		case err != nil:
			return "the answer was cut"
		case resp.Close:
			return "the engine closes it"
		case resp.Body != http.NoBody && resp.ContentLength < 0 && len(resp.TransferEncoding) == 0:
			return "the answer ends with it"
		case in.Buffered() > 0 && len(raw) <= readBuffer: // more than that may still be under way
			return "more has come than was asked for"
		}
		return ""
	}
}
