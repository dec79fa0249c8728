package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/store"
)

// databaseFile is the database within the data directory.
const databaseFile = "lmwarden.db"

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
	store     *store.Store
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
		checkAddress("inference_listen", cfg.GetInferenceListen()),
		checkAddress("admin_listen", cfg.GetAdminListen()),
		checkInferenceAccess(cfg),
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

// assemble starts every part in order, each with its clean-up. The order is the
// reverse of the one in which parts may end: the loop and the engines first, the
// database last.
func (s *Server) assemble(ctx context.Context) error {
	access, err := resolveAccess(s.cfg)
	if err != nil {
		return err
	}
	s.made = access.made
	for _, warning := range access.warnings {
		s.log.Warn().Msg(warning)
	}
	inference, err := s.listen(ctx, "inference_listen", s.cfg.GetInferenceListen())
	if err != nil {
		return err
	}
	admin, err := s.listen(ctx, "admin_listen", s.cfg.GetAdminListen())
	if err != nil {
		return err
	}
	s.inference, s.admin = inference.Addr(), admin.Addr()
	if err := s.openStore(); err != nil {
		return err
	}
	handler, err := newAdminHandler(adminOptions{
		info:   s.info(),
		access: access,
		page:   s.opts.Page,
		local:  loopback(s.cfg.GetAdminListen()),
	})
	if err != nil {
		return err
	}
	s.serve("admin listener", admin, handler)
	s.serve("inference listener", inference, http.NotFoundHandler())
	return nil
}

// listen opens a listener that is closed again unless a server takes it over.
func (s *Server) listen(ctx context.Context, field, addr string) (net.Listener, error) {
	l, err := listen(ctx, field, addr)
	if err != nil {
		return nil, err
	}
	s.cleanups.push(field, func(context.Context) error {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return l, nil
}

func (s *Server) openStore() error {
	st, err := store.Open(filepath.Join(s.cfg.GetDataDir(), databaseFile), store.Options{MoveCorruptAside: s.opts.MoveCorruptAside})
	if err != nil {
		return err
	}
	s.cleanups.push("database", func(context.Context) error { return st.Close() })
	if st.MovedAside != "" {
		s.log.Warn().Str("moved_to", st.MovedAside).Msg("the database could not be read; it was moved aside and an empty one was made")
	}
	s.store = st
	return nil
}

// serve answers on a listener until the clean-up.
func (s *Server) serve(name string, l net.Listener, h http.Handler) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC without TLS
	requests, cancel := context.WithCancel(context.Background())
	srv := &http.Server{
		Handler:           h,
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return requests },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error().Err(err).Str("listener", name).Msg("the listener ended")
		}
	}()
	s.cleanups.push(name, func(ctx context.Context) error {
		cancel() // watch streams have no end of their own
		ctx, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		err := srv.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = srv.Close()
		}
		<-done
		return err
	})
}

// info returns the facts about the daemon that do not change while it runs.
func (s *Server) info() *lmwardenv1.Info {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = "unknown"
	}
	return &lmwardenv1.Info{
		Version:      s.opts.Version,
		Hostname:     hostname,
		Started:      now(),
		InferenceUrl: fmt.Sprintf("http://%s", s.inference),
		AdminUrl:     fmt.Sprintf("http://%s", s.admin),
		DataDir:      s.cfg.GetDataDir(),
		ConfigFile:   s.opts.ConfigFile,
		Simulated:    s.opts.Simulated,
	}
}
