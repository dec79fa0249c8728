package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/server"
	"github.com/lmwarden/lmwarden/ui"
)

func (a *app) serveCommand() *cobra.Command {
	var file string
	var moveCorrupt bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon",
		Long: "Run the daemon until it is interrupted. Flags win over the configuration file.\n" +
			"The first interrupt drains and stops the engines, the second kills them at once.",
		Example: "  lmwarden serve --config /etc/lmwarden.yaml",
		Args:    arguments(),
	}
	c.Flags().StringVar(&file, "config", "", "configuration file (YAML)")
	c.Flags().BoolVar(&moveCorrupt, "move-corrupt-database", false, "rename a database that cannot be read and start with an empty one")
	flags := addSettings(c.Flags(), (&lmwardenv1.Config{}).ProtoReflect().Descriptor(), "")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg := &lmwardenv1.Config{}
		if file != "" {
			var err error
			if cfg, err = server.LoadConfig(file); err != nil {
				return &codeError{exitUsage, err}
			}
		}
		if _, err := flags.apply(cfg); err != nil {
			return err
		}
		logger, err := a.logger(cfg.GetLogLevel())
		if err != nil {
			return err
		}
		d, err := a.startDaemon(c.Context(), server.Options{
			Config:           cfg,
			ConfigFile:       file,
			Version:          versionText(),
			Logger:           logger,
			Page:             ui.Handler(),
			MoveCorruptAside: moveCorrupt,
		})
		if err != nil {
			return err
		}
		a.announce(d, cfg)
		a.announceProblems(c.Context(), d)
		<-c.Context().Done()
		return a.stopDaemon(c.Context(), d)
	}
	return c
}

// logger writes the daemon's log to standard error: for people on a terminal, as JSON
// lines elsewhere.
func (a *app) logger(level string) (zerolog.Logger, error) {
	parsed, err := zerolog.ParseLevel(or(level, "info"))
	if err != nil {
		return zerolog.Nop(), usageErrorf("log level %q does not exist; choose debug, info, warn or error", level)
	}
	out := a.err
	if isTerminal(a.err) {
		out = zerolog.ConsoleWriter{Out: a.err, TimeFormat: time.TimeOnly, NoColor: a.getenv("NO_COLOR") != ""}
	}
	return zerolog.New(out).Level(parsed).With().Timestamp().Logger(), nil
}

// startDaemon makes and starts a daemon. A start that fails is the fault of the
// settings or of the box, which is an error of usage.
func (a *app) startDaemon(ctx context.Context, opts server.Options) (*server.Server, error) {
	d, err := server.New(opts)
	if err != nil {
		return nil, &codeError{exitUsage, err}
	}
	if err := d.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &codeError{exitUsage, err}
	}
	return d, nil
}

// announce says where the daemon answers.
func (a *app) announce(d *server.Server, cfg *lmwardenv1.Config) {
	fmt.Fprintf(a.err, "page and admin API       %s\n", localURL(server.Scheme(cfg.GetAdminTls()), d.AdminAddr()))
	fmt.Fprintf(a.err, "OpenAI and Anthropic API %s\n", localURL(server.Scheme(cfg.GetInferenceTls()), d.InferenceAddr()))
	if token := d.NewAdminToken(); token != "" {
		fmt.Fprintf(a.err, "admin token, shown once  %s\n", token)
	}
}

// announceProblems prints the checks of the doctor that fail, each with what to do: a box
// without cards or without vLLM serves nothing, and a person sees it here first. What
// happens to models later is in the log.
func (a *app) announceProblems(ctx context.Context, d *server.Server) {
	doctor := lmwardenv1connect.NewSystemServiceClient(connect.NewClient(d.Transport()))
	report, err := doctor.RunDoctor(ctx, &lmwardenv1.RunDoctorRequest{})
	if err != nil {
		return // it is stopped already
	}
	for _, check := range report.GetChecks() {
		if !check.GetOk() {
			fmt.Fprintf(a.err, "problem with the %s: %s. %s\n", check.GetName(), strings.TrimRight(check.GetMessage(), "."), check.GetFix())
		}
	}
}

// localURL is the URL of a listener as a program on this host can open it: a listener
// on every interface is reached at the loopback one.
func localURL(scheme string, addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return scheme + "://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// stopProgress is how often a stop that takes its time says so.
const stopProgress = 2 * time.Second

// stopDaemon stops a daemon and waits. A second signal cuts the wait short.
func (a *app) stopDaemon(ctx context.Context, d *server.Server) error {
	fmt.Fprintln(a.err, "stopping: engines finish what they have; interrupt again to kill them at once")
	hurried := hurry(ctx)
	done := make(chan error, 1)
	start := time.Now()
	go func() { done <- d.Stop(hurried) }()
	ticker := time.NewTicker(stopProgress)
	defer ticker.Stop()
	killing := hurried.Done()
	for {
		select {
		case err := <-done:
			if hurried.Err() != nil {
				return errInterrupted
			}
			if err != nil {
				return fmt.Errorf("the daemon did not stop cleanly: %w", err)
			}
			fmt.Fprintf(a.err, "stopped after %s\n", time.Since(start).Round(100*time.Millisecond))
			return nil
		case <-killing:
			killing = nil // said once
			fmt.Fprintln(a.err, "killing the engines")
		case <-ticker.C:
			fmt.Fprintf(a.err, "still stopping after %s\n", time.Since(start).Round(time.Second))
		}
	}
}

// binary returns the path of this program, to be started again as an engine.
func binary() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", errors.Join(errors.New("the path of this program is not known, so it cannot start engines"), err)
	}
	return path, nil
}
