package upstream

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

// Every kind of answer, its bytes split anywhere: what is read, whether its end is
// clean, and whether the connection is kept.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		bytes  string
		method string
		status int
		body   string
		clean  bool
		kept   bool
	}{
		"with a length":                {ok, "POST", 200, "ok", true, true},
		"with a length, cut":           {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", "POST", 200, "ok", false, false},
		"empty":                        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "POST", 200, "", true, true},
		"chunked":                      {chunked + "2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n", "POST", 200, "abcde", true, true},
		"chunked, with trailers":       {chunked + "2\r\nab\r\n0\r\nX: y\r\n\r\n", "POST", 200, "ab", true, true},
		"chunked, with extensions":     {chunked + "2;a=b\r\nab\r\n0\r\n\r\n", "POST", 200, "ab", true, true},
		"chunked, without terminator":  {chunked + "2\r\nab\r\n", "POST", 200, "ab", false, false},
		"chunked, cut in a chunk":      {chunked + "5\r\nab", "POST", 200, "ab", false, false},
		"chunked, cut in the end":      {chunked + "2\r\nab\r\n0\r\n", "POST", 200, "ab", false, false},
		"until the connection ends":    {"HTTP/1.1 200 OK\r\n\r\nabc", "POST", 200, "abc", true, false},
		"the engine closes":            {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", "POST", 200, "ok", true, false},
		"HTTP/1.0":                     {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "POST", 200, "ok", true, false},
		"no content":                   {"HTTP/1.1 204 No Content\r\n\r\n", "POST", 204, "", true, true},
		"not modified, with a length":  {"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "GET", 304, "", true, true},
		"to HEAD, with a length":       {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD", 200, "", true, true},
		"to HEAD, chunked":             {chunked, "HEAD", 200, "", true, true},
		"a byte too many":              {ok + "!", "POST", 200, "ok", true, false},
		"behind interim answers":       {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok, "POST", 200, "ok", true, true},
		"behind as many as may be":     {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", maxInterim) + ok, "POST", 200, "ok", true, true},
		"headers as large as they may": {"HTTP/1.1 200 OK\r\nX: " + bytesOf(headLimit-8<<10) + "\r\nContent-Length: 2\r\n\r\nok", "POST", 200, "ok", true, true},
		"a large one":                  {"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + bytesOf(300_000), "POST", 200, bytesOf(300_000), true, true},
		"reason left out":              {"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "POST", 200, "ok", true, true},
	} {
		for network, start := range networks {
			for _, piece := range []int{0, 1, 7} {
				if piece > 0 && len(c.bytes) > 1<<12 {
					piece *= 1 << 12
				}
				t.Run(fmt.Sprintf("%s/%s in pieces of %d", name, network, piece), func(t *testing.T) {
					e := start(t, func(ec *engineConn) {
						ec.answer(c.bytes, piece)
						if c.kept {
							_, _ = ec.in.ReadByte() // until the client closes
						}
					})
					cl := e.client()
					r := e.request("body")
					r.Method = c.method
					got := cl.do(t.Context(), r)
					if got.err != nil || got.status != c.status || got.body != c.body || got.cut == nil != c.clean {
						t.Errorf("got %d %.40q %v %v, want %d %.40q, clean: %t", got.status, got.body, got.err, got.cut, c.status, c.body, c.clean)
					}
					if kept := cl.unused() == 1; kept != c.kept && (c.bytes != ok+"!" || piece == 0) {
						t.Errorf("kept: %t, want %t", kept, c.kept)
					}
				})
			}
		}
	}
}

// What is no answer is an error, and its connection is not used again.
func TestNoAnswers(t *testing.T) {
	for name, c := range map[string]struct{ bytes, want string }{
		"nothing":                 {"", "EOF"},
		"half a head":             {"HTTP/1.1 200 OK\r\nContent-Le", "malformed"},
		"garbage":                 {"\x16\x03\x01\x00\x02\r\n\r\n", "malformed"},
		"another protocol":        {"SSH-2.0-OpenSSH_9.6\r\n\r\n", "malformed"},
		"a status under 100":      {"HTTP/1.1 042 Strange\r\n\r\n", "status 42"},
		"a bad length":            {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "Content-Length"},
		"two lengths":             {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "Content-Length"},
		"another coding":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab", "transfer encoding"},
		"another protocol on top": {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "switches"},
		"endless interim answers": {strings.Repeat("HTTP/1.1 102 Processing\r\n\r\n", maxInterim+1) + ok, "interim"},
		"endless headers":         {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+bytesOf(1000)+"\r\n", 2000) + "\r\n", "over the limit"},
		"one endless header":      {"HTTP/1.1 200 OK\r\nX: " + bytesOf(headLimit) + "\r\nContent-Length: 2\r\n\r\nok", "over the limit"},
	} {
		for network, start := range networks {
			t.Run(name+" on "+network, func(t *testing.T) {
				e := start(t, func(ec *engineConn) { ec.answer(c.bytes, 0) })
				cl := e.client()
				got := cl.do(t.Context(), e.request("body"))
				if got.err == nil || !strings.Contains(got.err.Error(), c.want) || isStale(got.err) {
					t.Errorf("got %d %v, want an error with %q", got.status, got.err, c.want)
				}
				if n := cl.unused(); n != 0 {
					t.Errorf("%d connections are kept", n)
				}
			})
		}
	}
}

// Trailers are there behind the body.
func TestTrailers(t *testing.T) {
	e := onPipes(t, answers(chunked+"2\r\nab\r\n0\r\nSum: 7\r\n\r\n"))
	resp, err := e.client().Do(t.Context(), e.request(""))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err != nil || resp.Trailer.Get("Sum") != "7" {
		t.Errorf("got %v %v", resp.Trailer, err)
	}
}

// A piece of a stream is there when the engine has sent it, not when a buffer is full.
func TestPiecesComeAtOnce(t *testing.T) {
	next := make(chan string)
	e := onSockets(t, func(c *engineConn) {
		c.answer(chunked, 0)
		for piece := range next {
			c.write(fmt.Sprintf("%x\r\n%s\r\n", len(piece), piece), 0)
		}
		c.write("0\r\n\r\n", 0)
	})
	resp, err := e.client().Do(t.Context(), e.request(""))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for i := range 5 {
		next <- "piece"
		buf := make([]byte, 100)
		if n, err := io.ReadAtLeast(resp.Body, buf, 5); err != nil || string(buf[:n]) != "piece" {
			t.Errorf("piece %d: got %q %v", i, buf[:n], err)
		}
	}
	close(next)
	if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d %v", n, err)
	}
	if n, err := resp.Body.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("behind the end: %d %v", n, err)
	}
}

// The bound on the time until the headers counts from the last byte of the request, and
// ends with the headers: a stream may be silent for longer.
func TestHeaderTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := onPipes(t, func(c *engineConn) {
			r, err := http.ReadRequest(c.in)
			if err != nil {
				return
			}
			<-time.After(time.Hour) // a slow upload
			if _, err := io.ReadAll(r.Body); err != nil || c.n > 0 {
				_, _ = c.in.ReadByte() // silent until the client closes
				return
			}
			<-time.After(59 * time.Second)
			c.write(chunked+"2\r\nab\r\n", 0)
			<-time.After(time.Hour)
			c.write("0\r\n\r\n", 0)
		})
		cl := e.client(func(o *Options) { o.HeaderTimeout, o.MaxIdle = time.Minute, 0 })
		if got := cl.do(t.Context(), e.request(bytesOf(10_000))); got.err != nil || got.cut != nil || got.body != "ab" {
			t.Errorf("in time: got %q %v %v", got.body, got.err, got.cut)
		}
		start := time.Now()
		got := cl.do(t.Context(), e.request(bytesOf(10_000)))
		if took := time.Since(start); !isTimeout(got.err) || took != time.Hour+time.Minute {
			t.Errorf("silent: got %v after %v, want a time-out after 1h1m", got.err, took)
		}
	})
}
