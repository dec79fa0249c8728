package proxyload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"
)

// bareSays is how the bare proxy's line about its address begins.
const bareSays = "bare proxy"

// ServeBare runs a reverse proxy of Go's standard library, with nothing else, until ctx
// is done. It writes where it answers, and gives each request to the next target.
func ServeBare(ctx context.Context, out io.Writer, targets []string) error {
	bare, err := newBare(targets)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("no loopback port can be opened: %w", err)
	}
	srv := &http.Server{Handler: bare, ReadHeaderTimeout: time.Hour}
	fmt.Fprintf(out, "%s http://%s\n", bareSays, l.Addr())
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newBare is the bare proxy's handler.
func newBare(targets []string) (http.Handler, error) {
	if len(targets) == 0 {
		return nil, errors.New("the bare proxy needs the URL of at least one engine")
	}
	to := make([]*url.URL, len(targets))
	for i, target := range targets {
		u, err := url.Parse(target)
		if err != nil {
			return nil, fmt.Errorf("the engine's URL cannot be read: %w", err)
		}
		to[i] = u
	}
	var next atomic.Uint64
	bare := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to[next.Add(1)%uint64(len(to))]) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else the server closes the request's body when the answer begins. An engine
		// that answers before the transport has seen the body's end then loses its
		// connection, and the stream is cut, on a busy machine once in some hundreds.
		_ = http.NewResponseController(w).EnableFullDuplex()
		bare.ServeHTTP(w, r)
	}), nil
}
