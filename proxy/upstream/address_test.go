package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]address{
		"http://127.0.0.1:8000":       {dial: "127.0.0.1:8000", host: "127.0.0.1:8000", name: "127.0.0.1"},
		"http://engine":               {dial: "engine:80", host: "engine", name: "engine"},
		"https://engine/":             {secure: true, dial: "engine:443", host: "engine", name: "engine"},
		"http://engine:81/a/b%20c/":   {dial: "engine:81", host: "engine:81", name: "engine", prefix: "/a/b%20c"},
		"http://[fe80::1%25eth0]:800": {dial: "[fe80::1%eth0]:800", host: "[fe80::1]:800", name: "fe80::1%eth0"},
		"http://[::1]":                {dial: "[::1]:80", host: "[::1]", name: "::1"},
	} {
		got, err := parseAddress(text)
		want.text = text
		if err != nil || *got != want {
			t.Errorf("%s: got %+v %v, want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                               "begins with",
		"engine:8000":                    "begins with",
		"ftp://engine":                   "begins with",
		"http://":                        "no host",
		"http://a b":                     "invalid character",
		"http://bücher.example":          "not ASCII",
		"http://engine:port":             "invalid port",
		"http://engine\r\nX: y/":         "invalid control character",
		"http://user:hidden@engine":      "user or a password",
		"http://user@engine:8000":        "user or a password",
		"http://user:hidden@engine\x7f":  "invalid control character",
		"http://engine:8000/?key=hidden": "behind its path",
		"http://engine:8000?":            "behind its path",
		"http://engine:8000/v1#hidden":   "behind its path",
	} {
		var request *RequestError
		_, err := New(Options{}).Do(t.Context(), &Request{Engine: text, Method: "GET", Path: "/"})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &request) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("the error tells a secret: %v", err)
		}
	}
}

// An engine of somebody else may be behind TLS and a path.
func TestOverTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.RequestURI+" "+r.Proto+" "+string(body[:4]))
	}))
	defer s.Close()
	known := x509.NewCertPool()
	known.AddCert(s.Certificate())
	dials := 0
	cl := New(Options{
		IdleTimeout: time.Hour, MaxIdle: 8, TLS: &tls.Config{RootCAs: known},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			dials++
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	})
	defer cl.CloseIdleConnections()
	for range 3 {
		got := cl.do(t.Context(), &Request{Engine: s.URL + "/behind", Method: "POST", Path: "/v1/x", Query: "q", Body: []byte(bytesOf(300_000))})
		if got.body != "/behind/v1/x?q HTTP/1.1 xxxx" {
			t.Fatalf("got %q %v %v", got.body, got.err, got.cut)
		}
	}
	if dials != 1 {
		t.Errorf("%d connections, want 1", dials)
	}
	stranger := New(Options{IdleTimeout: time.Second, DialContext: new(net.Dialer).DialContext})
	var dial *DialError
	if got := stranger.do(t.Context(), &Request{Engine: s.URL, Method: "GET", Path: "/"}); !errors.As(got.err, &dial) || !strings.Contains(got.err.Error(), "certificate") {
		t.Errorf("an unknown certificate: got %v", got.err)
	}
}

// An engine that is silent in the handshake is given up.
func TestHandshakeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := make(chan struct{})
		e := onPipes(t, func(c *engineConn) {
			_, _ = io.Copy(io.Discard, c.in)
			close(closed)
		})
		r := e.request("")
		r.Engine = "https://engine"
		start := time.Now()
		got := e.client().do(t.Context(), r)
		<-closed
		var dial *DialError
		if took := time.Since(start); !errors.As(got.err, &dial) || took != handshakeTimeout {
			t.Errorf("got %v after %v, want a failed dial after %v", got.err, took, handshakeTimeout)
		}
	})
}
