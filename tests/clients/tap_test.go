package clients

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// seen is one exchange as the client had it.
type seen struct {
	method string
	uri    string
	header http.Header
	body   []byte

	status    int
	gotHeader http.Header
	got       []byte
	err       error // what ended the answer before its end
}

// tap stands between a client and the daemon, passes everything on as it is, and
// keeps it.
type tap struct {
	*httptest.Server

	daemon    string
	transport *http.Transport

	mu     sync.Mutex
	open   int // exchanges under way
	all    []*seen
	answer func(*seen) // is told of every answer's head before the client is
}

// newTap starts a tap before a daemon.
func newTap(t testing.TB, daemon string) *tap {
	p := &tap{daemon: daemon, transport: &http.Transport{DisableCompression: true}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.transport.CloseIdleConnections)
	t.Cleanup(func() {
		p.CloseClientConnections() // a client that hangs must not hold the end of the test
		p.Close()
	})
	return p
}

// take returns what was kept since the last call. It waits for what is under way: a client
// has the last byte of an answer with a length before the tap has kept the exchange, and
// the tap sees a little later than its client that it has left.
func (p *tap) take(t *testing.T) (all []*seen) {
	t.Helper()
	harness.Within(t, time.Minute, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open > 0 {
			return fmt.Errorf("%d exchanges are under way", p.open)
		}
		all, p.all = p.all, nil
		return nil
	})
	return all
}

// ServeHTTP passes one exchange on.
func (p *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.open++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.open--
		p.mu.Unlock()
	}()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s := &seen{method: r.Method, uri: r.RequestURI, header: r.Header.Clone(), body: body}
	defer func() {
		p.mu.Lock()
		p.all = append(p.all, s)
		p.mu.Unlock()
		if s.err != nil {
			panic(http.ErrAbortHandler) // as the client sees it without a tap
		}
	}()
	request, err := http.NewRequestWithContext(r.Context(), r.Method, p.daemon+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		s.err = err
		return
	}
	request.Header = r.Header.Clone()
	if _, ok := request.Header["User-Agent"]; !ok {
		request.Header["User-Agent"] = nil
	}
	answer, err := p.transport.RoundTrip(request)
	if err != nil {
		s.err = err
		return
	}
	defer answer.Body.Close()
	s.status, s.gotHeader = answer.StatusCode, answer.Header.Clone()
	p.mu.Lock()
	told := p.answer
	p.mu.Unlock()
	if told != nil {
		told(s)
	}
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	out := http.NewResponseController(w)
	for buf := make([]byte, 32<<10); ; {
		n, err := answer.Body.Read(buf)
		s.got = append(s.got, buf[:n]...)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				s.err = err
				return
			}
			_ = out.Flush() // the next write shows that the client left
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			s.err = err
			return
		}
	}
}
