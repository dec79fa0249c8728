package server

import (
	"context"
	"errors"
	"net"
	"sync"

	"connectrpc.com/connect/v2"
	"github.com/rs/zerolog"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
)

// Server is the daemon: two listeners and everything behind them. It is made by
// [New], started once and stopped once.
type Server struct {
	// Immutable after New.
	opts Options
	cfg  *lmwardenv1.Config // with defaults
	log  zerolog.Logger

	// mu guards what follows and makes Start and Stop wait for each other.
	mu        sync.Mutex
	started   bool
	cleanups  cleanups
	inference net.Addr
	admin     net.Addr
	made      string // admin token made by this start
	proxy     *proxy.Proxy
	transport connect.Transport
}

// New checks the options and returns a daemon that holds nothing yet. The error
// joins all problems.
func New(o Options) (*Server, error) {
	cfg := withDefaults(o.Config)
	if len(o.EngineCommand) > 0 {
		cfg.Engine.Command = o.EngineCommand
	}
	err := errors.Join(
		checkConfigMessage(cfg),
		checkListeners(cfg),
		checkInferenceAccess(cfg),
		checkCommand(cfg),
		checkTLS("inference_tls", cfg.GetInferenceTls()),
		checkTLS("admin_tls", cfg.GetAdminTls()),
	)
	if err != nil {
		return nil, err
	}
	return &Server{opts: o, cfg: cfg, log: o.Logger}, nil
}

// ErrStarted says that Start was called twice.
var ErrStarted = errors.New("the daemon was already started; make a new one")

// Start opens the listeners and the database and begins to serve. It returns when
// both listeners answer; engines start in the background. Ctx bounds the start
// alone. After an error nothing is left open. The errors that a caller may want to
// tell apart are *PortTakenError and those of [store.Open].
func (s *Server) Start(ctx context.Context) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return ErrStarted
	}
	s.started = true
	defer func() {
		if err != nil {
			err = errors.Join(err, s.cleanups.run(context.WithoutCancel(ctx)))
		}
	}()
	return s.assemble(ctx)
}

// Stop ends the daemon: engines are drained and ended, streams are cut, the database
// is closed. Ctx bounds the wait. It may be called more than once, before a start
// and after a failed one.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true // a stopped daemon does not start
	return s.cleanups.run(ctx)
}

// InferenceAddr returns the address of the OpenAI and Anthropic endpoints, with the
// port that the system chose for ":0"; nil before the start.
func (s *Server) InferenceAddr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inference
}

// AdminAddr returns the address of the admin API and the page, as
// [Server.InferenceAddr].
func (s *Server) AdminAddr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admin
}

// NewAdminToken returns the admin token when this start made it, to be shown once,
// else an empty text.
func (s *Server) NewAdminToken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made
}

// Proxy returns the data plane; nil before the start.
func (s *Server) Proxy() *proxy.Proxy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proxy
}

// Transport returns a transport that calls the API within the process, as its owner:
// no listener and no token between; nil before the start.
func (s *Server) Transport() connect.Transport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transport
}
