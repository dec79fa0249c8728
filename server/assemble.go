package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"connectrpc.com/connect/v2/connectinprocess"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/server/store"
	"github.com/lmwarden/lmwarden/supervisor"
	"github.com/lmwarden/lmwarden/supervisor/gpu"
)

// databaseFile is the database within the data directory.
const databaseFile = "lmwarden.db"

// assemble starts every part in order, each with its clean-up. Parts end in the
// reverse order: the loop first, then the engines, whose requests the proxy drains
// while both listeners still answer, then the listeners, and the database last.
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
	st, err := s.openStore()
	if err != nil {
		return err
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	c, err := s.newControl(st, access, metrics)
	if err != nil {
		return err
	}
	engines, err := s.newSupervisor(c)
	if err != nil {
		return err
	}
	c.engines, c.loop.engines = engines, engines
	s.transport = connectinprocess.New(newAPI(c, nil))
	s.serve("admin listener", admin, access.admin, newAdminHandler(newAPI(c, access.token), c, metrics, s.opts.Page), nil)
	s.serve("inference listener", inference, access.inference, guardInference(s.proxy, s.cfg), s.proxy.Close)
	s.watchCertificates(c.events, access.admin, access.inference)
	s.cleanups.push("engines", engines.Stop)
	s.startLoop(c.loop)
	s.startLogging(c)
	return nil
}

// newControl puts together what the handlers share, but for the engines.
func (s *Server) newControl(st *store.Store, a access, metrics prometheus.Registerer) (*control, error) {
	collector := stats.NewCollector()
	s.cleanups.push("statistics", func(context.Context) error {
		collector.Close()
		return nil
	})
	events := stats.NewEvents()
	trials := newComparisons(nil, events)
	s.proxy = proxy.New(proxy.Options{
		Logger:        s.log,
		Registerer:    metrics,
		Recorder:      trialRecorder{collector, trials},
		MaxBodyBytes:  int64(min(s.cfg.GetMaxBodyBytes(), 1<<32)),
		SessionHeader: s.cfg.GetSessionHeader(),
	})
	s.cleanups.push("proxy", func(context.Context) error {
		s.proxy.Close()
		return nil
	})
	trials.plane = s.proxy // nothing is recorded before it serves
	if err := trials.keepIn(st); err != nil {
		return nil, err
	}
	s.cleanups.push("comparisons", func(context.Context) error {
		trials.end(time.Now())
		return nil
	})
	box := s.newCards()
	c := &control{
		info:        s.info(),
		cfg:         s.cfg,
		access:      a,
		log:         s.log,
		plane:       s.proxy,
		cards:       box,
		stats:       collector,
		events:      events,
		comparisons: trials,
		drained:     newDrained(),
		now:         time.Now,
	}
	c.loop = newReconciler(c, s.opts.EngineEnv, metrics)
	models, shadowed, err := openCatalog(st, s.cfg, s.opts.ConfigFile, c.loop.wake)
	if err != nil {
		return nil, err
	}
	c.models, c.loop.models = models, models
	if err := s.openLimits(c, st); err != nil {
		return nil, err
	}
	for _, name := range shadowed {
		c.events.Add(stats.Event{Severity: stats.Warning, Kind: "model_shadowed", Model: name, Replica: -1, Message: fmt.Sprintf("Model %s is declared in the configuration and also stored; the declared one is served and the stored one is kept unused.", name)})
	}
	return c, nil
}

// openLimits reads what keys may take, and says what of it does not count.
func (s *Server) openLimits(c *control, st *store.Store) error {
	limits, shadowed, broken, err := openKeyLimits(st, c.access.keys, s.cfg, s.opts.ConfigFile, c.loop.wake)
	if err != nil {
		return err
	}
	c.limits, c.loop.limits = limits, limits
	warn := func(kind, format, name string) {
		c.events.Add(stats.Event{Severity: stats.Warning, Kind: kind, Replica: box, Message: fmt.Sprintf(format, name)})
	}
	for _, name := range shadowed {
		warn("key_limits_shadowed", "The limits of key %q are declared in the configuration and also stored; the declared ones count and the stored ones are kept unused.", name)
	}
	for _, name := range broken {
		warn("key_limits_broken", "The stored limits of key %q cannot be read, so none of its own hold; state them again on the page or with \"lmwarden key set\".", name)
	}
	return nil
}

// newCards returns the reader of the box's cards.
func (s *Server) newCards() *cards {
	switch {
	case s.opts.NoGPU:
		return &cards{none: "cards are left alone; the daemon was started so"}
	case s.cfg.GetEngine().GetDevice() == lmwardenv1.EngineDevice_ENGINE_DEVICE_CPU:
		return &cards{none: "engines compute on the processor; engine.device is cpu"}
	case s.opts.Cards != nil:
		return &cards{reader: s.opts.Cards}
	}
	return &cards{reader: gpu.New(gpu.Options{})}
}

// newSupervisor returns the supervisor, wired to the proxy and to the events.
func (s *Server) newSupervisor(c *control) (*supervisor.Supervisor, error) {
	events := &stateEvents{events: c.events, wake: c.loop.wake, last: make(map[supervisor.ReplicaID]standing)}
	engine := s.cfg.GetEngine()
	return supervisor.New(supervisor.Options{
		Command:      engine.GetCommand(),
		DataDir:      s.cfg.GetDataDir(),
		PassEnv:      engine.GetPassEnv(),
		PortBase:     int(engine.GetPortBase()),
		DrainTimeout: engine.GetDrainTimeout().AsDuration(),
		StallTimeout: engine.GetStallTimeout().AsDuration(),
		Logger:       s.log,
		Hooks: supervisor.Hooks{
			BeforeStop: func(ctx context.Context, id supervisor.ReplicaID) { drain(ctx, c, id) },
			Changed:    events.changed,
			InFlight:   func(id supervisor.ReplicaID) int { return c.plane.InFlight(proxyID(id)) },
		},
	})
}

// drain empties a replica before its engine is stopped, or after it has ended by itself.
// One that the proxy never knew has nothing to lose.
func drain(ctx context.Context, c *control, id supervisor.ReplicaID) {
	died := errors.Is(context.Cause(ctx), supervisor.ErrEngineEnded)
	if died {
		ctx = endedBy(ctx, proxy.ErrEngineDied)
	}
	cut, err := c.plane.Drain(ctx, proxyID(id))
	if err != nil || cut == 0 {
		return
	}
	if died {
		c.events.Add(stats.Event{Severity: stats.Warning, Kind: "requests_cut", Model: id.Model, Replica: id.Index, Message: fmt.Sprintf("The engine of replica %d of %s ended by itself with requests in flight: %d. Those whose answer had not begun went to another replica if there is one; the clients of the others were told.", id.Index, id.Model, cut)})
		return
	}
	c.events.Add(stats.Event{Severity: stats.Warning, Kind: "requests_cut", Model: id.Model, Replica: id.Index, Message: fmt.Sprintf("Replica %d of %s was stopped before %d of its requests had ended; their clients were told. A longer engine.drain_timeout gives them more time.", id.Index, id.Model, cut)})
}

// endedBy returns a context that has ended for a reason.
func endedBy(ctx context.Context, why error) context.Context {
	ctx, end := context.WithCancelCause(context.WithoutCancel(ctx))
	end(why)
	return ctx
}

// startLogging writes grave events to the log until its clean-up.
func (s *Server) startLogging(c *control) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.logEvents(ctx)
	}()
	s.cleanups.push("log of events", func(context.Context) error {
		cancel()
		<-done
		return nil
	})
}

// startLoop runs the reconcile loop until its clean-up.
func (s *Server) startLoop(loop *reconciler) {
	ctx, cancel := context.WithCancel(context.Background())
	go loop.run(ctx)
	s.cleanups.push("reconcile loop", func(context.Context) error {
		cancel()
		<-loop.done
		return nil
	})
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

// openStore opens the database of the data directory.
func (s *Server) openStore() (*store.Store, error) {
	st, err := store.Open(filepath.Join(s.cfg.GetDataDir(), databaseFile), store.Options{MoveCorruptAside: s.opts.MoveCorruptAside})
	if err != nil {
		return nil, err
	}
	s.cleanups.push("database", func(context.Context) error { return st.Close() })
	if st.MovedAside != "" {
		s.log.Warn().Str("moved_to", st.MovedAside).Msg("the database could not be read; it was moved aside and an empty one was made")
	}
	return st, nil
}

// serve answers on a listener until the clean-up, over TLS with a certificate. Finish, unless it is nil, then tells
// those who still wait that the daemon ends; without it they are cut.
func (s *Server) serve(name string, l net.Listener, cert *certificate, h http.Handler, finish func()) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	if cert == nil {
		protocols.SetUnencryptedHTTP2(true) // gRPC without TLS
	} else {
		protocols.SetHTTP2(true)
		l = cert.listener(l)
	}
	requests, cancel := context.WithCancel(context.Background())
	srv := &http.Server{
		Handler:   h,
		Protocols: protocols,
		// It holds nothing of an engine, and a box so busy that it takes long to get there
		// must not turn requests away: the one that is cut in its first line is answered
		// with 400, which no client tries again.
		ReadHeaderTimeout: time.Minute,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          debugLogger(s.log, name),
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
		defer cancel()
		if finish != nil {
			finish()
		} else {
			cancel() // watch streams have no end of their own
		}
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
		Started:      timestamppb.Now(),
		InferenceUrl: baseURL(Scheme(s.cfg.GetInferenceTls()), s.inference, hostname),
		AdminUrl:     baseURL(Scheme(s.cfg.GetAdminTls()), s.admin, hostname),
		DataDir:      s.cfg.GetDataDir(),
		ConfigFile:   s.opts.ConfigFile,
		Simulated:    s.opts.Simulated,
	}
}

// baseURL returns the URL of a listener; one on all addresses is reached by the name
// of the host.
func baseURL(scheme string, addr net.Addr, hostname string) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + "://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = hostname
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}
