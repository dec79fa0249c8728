package proxyload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	model      = "bench"
	engines    = 4
	streamPath = "/v1/chat/completions"
)

// Names of the ways.
const (
	Direct = "direct"
	Bare   = "reverse proxy"
	Nginx  = "nginx"
	Ours   = "lmwarden"
)

// Setup says what a box is made of.
type Setup struct {
	// Binary is this program, which is started again: as the daemon, and as the bare
	// proxy with the arguments of BareArgs before the engines' URLs.
	Binary   string
	BareArgs []string
	// Nginx is the name or the path of nginx. When there is none the box is without it
	// and says so.
	Nginx string
	// Progress is told what begins; nil for nobody.
	Progress func(string)
}

// Box is fake engines in this process and proxies before them, each as processes of
// its own, all on loopback ports.
type Box struct {
	// Ways are the direct one and those through each proxy.
	Ways []Way
	// NginxVersion is that of the nginx in the box: "nginx/1.22.1"; empty without one.
	NginxVersion string
	// NginxMissing is a sentence that says why the box has none.
	NginxMissing string

	dir       string
	engine    *Engine
	servers   []*http.Server
	engines   []string // base URLs
	processes []*process
}

// startLimit bounds the start of one proxy.
const startLimit = 60 * time.Second

// Start makes a box. It is ready when a stream came whole through each of its ways.
// Close it in any case of success.
func Start(ctx context.Context, setup Setup) (box *Box, err error) {
	b := &Box{engine: &Engine{Model: model}}
	defer func() {
		if err != nil {
			b.Close()
		}
	}()
	if b.dir, err = os.MkdirTemp("", "lmwarden-bench-proxy-"); err != nil {
		return nil, fmt.Errorf("make a folder for the proxies' files: %w", err)
	}
	if err := b.serveEngines(ctx); err != nil {
		return nil, err
	}
	say := setup.Progress
	if say == nil {
		say = func(string) {}
	}
	for _, proxy := range []struct {
		name  string
		begin func(context.Context, Setup) error
	}{{"a bare reverse proxy", b.beginBare}, {Nginx, b.tryNginx}, {"the daemon", b.beginOurs}} {
		say("starting " + proxy.name)
		limited, cancel := context.WithTimeout(ctx, startLimit)
		err := proxy.begin(limited, setup)
		cancel()
		if err != nil {
			return nil, err
		}
	}
	if b.NginxMissing != "" {
		say(b.NginxMissing)
	}
	return b, nil
}

// SetPace tells the engines how long their streams take.
func (b *Box) SetPace(d time.Duration) { b.engine.SetPace(d) }

// Body returns a request of about size bytes that the box's engines answer.
func (b *Box) Body(size int) []byte { return Body(model, size) }

// Close ends the proxies and the engines and removes their files.
func (b *Box) Close() {
	for _, p := range b.processes {
		p.stop()
	}
	for _, srv := range b.servers {
		_ = srv.Close()
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir)
	}
}

// serveEngines opens the engines' ports and adds the direct way.
func (b *Box) serveEngines(ctx context.Context) error {
	direct := Way{Name: Direct}
	for range engines {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("no loopback port can be opened: %w", err)
		}
		// A proxy's transport may open a connection long before it uses it.
		srv := &http.Server{Handler: b.engine, ReadHeaderTimeout: time.Hour}
		b.servers = append(b.servers, srv)
		go srv.Serve(l) //nolint:errcheck // ends with Close
		base := "http://" + l.Addr().String()
		b.engines = append(b.engines, base)
		direct.URLs = append(direct.URLs, base+streamPath)
	}
	b.Ways = append(b.Ways, direct)
	return nil
}

func (b *Box) beginBare(ctx context.Context, setup Setup) error {
	args := append(append([]string{setup.Binary}, setup.BareArgs...), b.engines...)
	p, err := begin(Bare, args...)
	if err != nil {
		return err
	}
	return b.joinAt(ctx, p, bareSays)
}

// tryNginx adds nginx when there is one. One that is there and does not work is an
// error: leaving it out in silence would look like a comparison with it.
func (b *Box) tryNginx(ctx context.Context, setup Setup) error {
	var path string
	path, b.NginxVersion, b.NginxMissing = findNginx(ctx, setup.Nginx)
	if path == "" {
		return nil
	}
	return b.beginNginx(ctx, path)
}

// beginOurs starts the daemon as a user does, with the engines as a remote model and
// every setting at its default.
func (b *Box) beginOurs(ctx context.Context, setup Setup) error {
	quoted := make([]string, len(b.engines))
	for i, engine := range b.engines {
		quoted[i] = fmt.Sprintf("%q", engine)
	}
	conf := filepath.Join(b.dir, "lmwarden.yaml")
	text := fmt.Sprintf(ownConfig, filepath.Join(b.dir, "data"), model, strings.Join(quoted, ", "))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write our configuration: %w", err)
	}
	p, err := begin(Ours, setup.Binary, "serve", "--config", conf)
	if err != nil {
		return err
	}
	return b.joinAt(ctx, p, "OpenAI and Anthropic API")
}

// ownConfig takes the folder of the data, the model and the engines.
const ownConfig = `inference_listen: 127.0.0.1:0
admin_listen: 127.0.0.1:0
data_dir: %q
models:
  - name: %s
    spec:
      replica_mode: remote
      remote_urls: [%s]
`

// joinAt adds a process that says where it answers, or ends it.
func (b *Box) joinAt(ctx context.Context, p *process, prefix string) error {
	base, err := p.url(ctx, prefix)
	if err == nil {
		err = b.join(ctx, p, base)
	}
	if err != nil {
		p.stop()
	}
	return err
}

// join adds a process as a way, once it carries a stream on each engine's connection.
func (b *Box) join(ctx context.Context, p *process, base string) error {
	way := Way{Name: p.name, URLs: []string{base + streamPath}, CPU: p.cpu}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	try := measured{way: way, opts: Options{Body: b.Body(1000)}, http: &http.Client{Transport: transport}}
	err := p.answers(ctx, func(ctx context.Context) error {
		var errs []error
		for connection := range engines { // a daemon becomes ready replica by replica
			_, err := try.stream(ctx, connection)
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	b.Ways, b.processes = append(b.Ways, way), append(b.processes, p)
	return nil
}
