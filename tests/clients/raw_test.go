package clients

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawEngine is a replica that answers with bytes as they stand, so that headers of any
// case, twice or empty, and any framing can be sent.
type rawEngine struct {
	t        testing.TB
	listener net.Listener

	mu     sync.Mutex
	answer string       // to everything that is not asked by the daemon for itself
	asked  *rawExchange // the last request that got it
	open   map[net.Conn]bool
}

// rawExchange is a request as the engine had it.
type rawExchange struct {
	line   string // method and target
	header http.Header
	body   []byte
}

// newRawEngine starts one.
func newRawEngine(t testing.TB) *rawEngine {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &rawEngine{t: t, listener: listener, open: map[net.Conn]bool{}}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.mu.Lock()
			e.open[conn] = true
			e.mu.Unlock()
			running.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		e.mu.Lock()
		for conn := range e.open {
			conn.Close()
		}
		e.mu.Unlock()
		running.Wait()
	})
	return e
}

func (e *rawEngine) url() string { return "http://" + e.listener.Addr().String() }

// say sets the answer.
func (e *rawEngine) say(answer string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer, e.asked = answer, nil
}

// last returns the request that got the answer.
func (e *rawEngine) last() *rawExchange {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// serve answers on one connection until an answer ends it.
func (e *rawEngine) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		e.mu.Lock()
		delete(e.open, conn)
		e.mu.Unlock()
	}()
	in := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		answer, keep := e.answerTo(request, body)
		if _, err := io.WriteString(conn, answer); err != nil || !keep {
			return
		}
	}
}

// answerTo returns the bytes for a request, and whether the connection goes on.
func (e *rawEngine) answerTo(request *http.Request, body []byte) (answer string, keep bool) {
	whole := func(contentType, text string) (string, bool) {
		return fmt.Sprintf("HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s", contentType, len(text), text), true
	}
	switch request.URL.Path {
	case "/health":
		return whole("text/plain", "")
	case "/version":
		return whole("application/json", `{"version":"0.32.0"}`)
	case "/metrics":
		return whole("text/plain", engineMetrics)
	case "/v1/models":
		return whole("application/json", engineModels)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.answer == "" { // the daemon looks for a first token
		return whole("application/json", firstToken)
	}
	e.asked = &rawExchange{request.Method + " " + request.RequestURI, request.Header, body}
	return e.answer, !strings.Contains(strings.ToLower(e.answer), "connection: close")
}

// rawAnswer is an answer as it stood on the wire, but for how its end was marked.
type rawAnswer struct {
	Status int
	Header map[string][]string // by name in lower case; values in their order
	Body   string
	Ended  bool // whether the body was whole
}

// ask sends a request of these bytes to an address and reads the answer.
func ask(t *testing.T, url, request string) rawAnswer {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	var copied bytes.Buffer
	in := bufio.NewReader(io.TeeReader(conn, &copied))
	method, _, _ := strings.Cut(request, " ")
	answer, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no answer to %.80q: %v", request, err)
	}
	body, err := io.ReadAll(answer.Body)
	head, _, _ := strings.Cut(copied.String(), "\r\n\r\n")
	got := rawAnswer{Status: answer.StatusCode, Header: map[string][]string{}, Body: string(body), Ended: err == nil}
	for _, line := range strings.Split(head, "\r\n")[1:] {
		name, value, _ := strings.Cut(line, ":")
		name = strings.ToLower(name)
		got.Header[name] = append(got.Header[name], textproto.TrimString(value))
	}
	return got
}

// less returns the answer without some headers, and without those that begin with ours.
func (a rawAnswer) less(names ...string) rawAnswer {
	a.Header = maps.Clone(a.Header)
	maps.DeleteFunc(a.Header, func(name string, _ []string) bool {
		return slices.Contains(names, name) || strings.HasPrefix(name, "x-lmwarden-")
	})
	return a
}
