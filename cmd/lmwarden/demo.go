package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server"
	"github.com/lmwarden/lmwarden/supervisor/gpu"
	"github.com/lmwarden/lmwarden/ui"
)

// The simulated box: four cards of 16 GiB, one model as four replicas.
const (
	demoModel    = "qwen3-4b"
	demoSource   = "Qwen/Qwen3-4B-Instruct-2507"
	demoReplicas = 4
	demoSeqs     = 32
	demoCard     = "NVIDIA RTX A4000"
	demoMemory   = 16 << 30
	demoPreset   = "a4000/qwen3-4b"
	// demoBytesPerToken is what bench finds when it calibrates against these engines.
	demoBytesPerToken = 4.48
	// demoStart is how long a simulated engine takes to start.
	demoStart = "500ms"
)

// demoAdmissions are the values of --admission.
var demoAdmissions = map[string]lmwardenv1.Admission{
	"none":        lmwardenv1.Admission_ADMISSION_NONE,
	"working_set": lmwardenv1.Admission_ADMISSION_WORKING_SET,
}

// demoFlags are the flags of demo.
type demoFlags struct {
	length    time.Duration
	sessions  int
	affinity  string
	admission string
	speed     float64
	noTraffic bool
	seed      uint64
	inference string
	admin     string
	logLevel  string
}

func (a *app) demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run the daemon with a simulated four-card box and traffic; no GPU needed",
		Long: "Run the daemon with a simulated box: four cards of 16 GiB, one model as four\n" +
			"replicas, engines as processes, and synthetic coding-agent traffic. Everything is\n" +
			"kept in a temporary directory and gone afterwards. With --for it ends by itself\n" +
			"and reports; the time begins when all replicas are ready.",
		Example: "  lmwarden demo\n  lmwarden demo --for 30s --sessions 8 -o json",
		Args:    arguments(),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(a.output); err != nil {
				return err
			}
			return a.demo(c.Context(), f)
		},
	}
	c.Flags().DurationVar(&f.length, "for", 0, "end after this time with traffic and report; 0 runs until interrupted")
	c.Flags().IntVar(&f.sessions, "sessions", 8, "conversations at the same time")
	c.Flags().StringVar(&f.affinity, "affinity", "on", "keep each conversation on its replica: on or off")
	c.Flags().StringVar(&f.admission, "admission", "working_set", "what may be let in at once: working_set or none")
	c.Flags().Float64Var(&f.speed, "speed", 1, "how many times faster than the real cards the box computes, 0.1 to 100")
	c.Flags().BoolVar(&f.noTraffic, "no-traffic", false, "send nothing; bring your own client")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the conversations' texts")
	c.Flags().StringVar(&f.inference, "inference-listen", "", "address of the OpenAI and Anthropic API (without: 127.0.0.1:8000, or a free port)")
	c.Flags().StringVar(&f.admin, "admin-listen", "", "address of the page and the admin API (without: 127.0.0.1:8001, or a free port)")
	c.Flags().StringVar(&f.logLevel, "log-level", "warn", "level of the daemon's log: debug, info, warn or error")
	return c
}

// check refuses what cannot be meant, before anything is started.
func (f demoFlags) check(output string) error {
	switch {
	case f.length < 0:
		return usageErrorf("--for %s is negative; 0 runs until interrupted", f.length)
	case f.sessions < 1 || f.sessions > 1024:
		return usageErrorf("--sessions %d is not possible; choose 1 to 1024", f.sessions)
	case f.affinity != "on" && f.affinity != "off":
		return usageErrorf("--affinity %q is neither on nor off", f.affinity)
	case demoAdmissions[f.admission] == lmwardenv1.Admission_ADMISSION_UNSPECIFIED:
		return usageErrorf("--admission %q is neither working_set nor none", f.admission)
	case f.speed < 0.1 || f.speed > 100:
		return usageErrorf("--speed %g is not possible; choose 0.1 to 100", f.speed)
	case output != outputTable && output != outputJSON:
		return usageErrorf("demo has no form %q; choose table or json", output)
	}
	return nil
}

// demo runs the whole demonstration: the box, the traffic, the report.
func (a *app) demo(ctx context.Context, f demoFlags) (err error) {
	dir, remove, err := a.demoDir()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	box, err := a.startBox(ctx, f, dir)
	if err != nil {
		return err
	}
	defer func() {
		if stopErr := a.stopDaemon(ctx, box.daemon); err == nil {
			err = stopErr
		}
	}()
	if err := box.makeModel(ctx, f); err != nil {
		return interruptedOr(ctx, err)
	}
	a.announce(box.daemon, nil)
	fmt.Fprintf(a.err, "model                    %s, four replicas on simulated cards\n", demoModel)
	fmt.Fprintf(a.err, "try it                   %s --addr %s connect claude-code\n", a.self, localURL("http", box.daemon.AdminAddr()))
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { box.followLoad(following) })
	follower.Go(func() { box.watchModel(following, stop) })
	report, err := a.demoTraffic(following, f, box)
	removed := following.Err() != nil && ctx.Err() == nil
	stop()
	follower.Wait()
	if removed {
		fmt.Fprintf(a.err, "%s was removed, and with it what the demo sends; the demo ends\n", demoModel)
		return nil
	}
	if err != nil {
		return err
	}
	if f.length == 0 && a.output != outputJSON {
		return nil // a person watched it
	}
	if err := a.printDemo(report); err != nil {
		return err
	}
	switch {
	case f.length > 0 && ctx.Err() != nil:
		return errInterrupted // what there was by then is printed
	case report.Requests == 0 && report.Errors > 0:
		return fmt.Errorf("no request of the demo succeeded: %s", report.FirstError)
	}
	return nil
}

// demoBox is a running daemon with simulated cards and its client.
type demoBox struct {
	daemon *server.Server
	cards  *demoCards
	cs     *clients
	app    *app
}

// watchModel calls gone when somebody removed the demo's model.
func (b *demoBox) watchModel(ctx context.Context, gone func()) {
	stream, err := b.cs.models.WatchModels(ctx, &lmwardenv1.WatchModelsRequest{})
	if err != nil {
		return // the daemon is going
	}
	defer stream.Close() //nolint:errcheck // nothing is sent any more
	for {
		m, err := stream.Receive()
		if err != nil {
			return
		}
		if find(m.GetModels(), demoModel) == nil {
			gone()
			return
		}
	}
}

// startBox starts the daemon on the wanted addresses, or on free ports when the usual
// ones are taken and none was asked for.
func (a *app) startBox(ctx context.Context, f demoFlags, dir string) (*demoBox, error) {
	logger, err := a.logger(f.logLevel)
	if err != nil {
		return nil, err
	}
	self, err := binary()
	if err != nil {
		return nil, err
	}
	cards := newDemoCards()
	simulated := gpu.NewSimulated(demoReplicas, demoCard, demoMemory)
	simulated.InUse = cards.load
	d, err := a.startDaemon(ctx, server.Options{
		Config: &lmwardenv1.Config{
			InferenceListen: or(f.inference, freeAddress(ctx, "127.0.0.1:8000")),
			AdminListen:     or(f.admin, freeAddress(ctx, "127.0.0.1:8001")),
			DataDir:         dir,
			Engine: &lmwardenv1.EngineConfig{
				Command:      []string{self, vllmdVerb},
				DrainTimeout: durationpb.New(15 * time.Second),
				PassEnv:      simulationEnv(os.Environ()),
			},
		},
		Version: versionText(),
		Logger:  logger,
		Page:    ui.Handler(),
		EngineEnv: map[string]string{
			"LMWARDEN_SIM_PRESET": demoPreset,
			"LMWARDEN_SIM_SPEED":  strconv.FormatFloat(f.speed, 'g', -1, 64),
			"LMWARDEN_SIM_START":  demoStart,
		},
		Simulated: true,
		Cards:     simulated,
	})
	if err != nil {
		return nil, err
	}
	client := *a // its own address; the user's --addr is for another daemon
	client.addr, client.token = localURL("http", d.AdminAddr()), d.NewAdminToken()
	cs, err := client.dial()
	if err != nil {
		return nil, errors.Join(err, d.Stop(ctx))
	}
	return &demoBox{daemon: d, cards: cards, cs: cs, app: a}, nil
}

// freeAddress returns the address, or one with a port of the system's choice when it
// is taken.
func freeAddress(ctx context.Context, address string) string {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return "127.0.0.1:0"
	}
	if err == nil {
		_ = l.Close()
	}
	return address
}

// simulationEnv returns the names of our own variables that are set, so that a
// simulated engine can be given a fault, or a mark, from outside.
func simulationEnv(environ []string) []string {
	var names []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if strings.HasPrefix(name, "LMWARDEN_SIM_") || strings.HasPrefix(name, "LMWARDEN_TEST_") {
			names = append(names, name)
		}
	}
	return names
}

// makeModel makes the model through the API, where it stays changeable, and waits
// until all its replicas are ready.
func (b *demoBox) makeModel(ctx context.Context, f demoFlags) error {
	_, err := b.cs.models.CreateModel(ctx, &lmwardenv1.CreateModelRequest{
		Name: demoModel,
		Spec: &lmwardenv1.ModelSpec{
			Source:             demoSource,
			Aliases:            []string{"claude-*"},
			Replicas:           demoReplicas,
			TensorParallelSize: 1,
			MaxNumSeqs:         proto.Uint32(demoSeqs),
			ToolCallParser:     "hermes",
		},
		Routing: &lmwardenv1.RoutingSettings{Affinity: proto.Bool(f.affinity == "on"), Admission: demoAdmissions[f.admission]},
	})
	if err != nil {
		return err
	}
	if _, err = b.app.waitReady(ctx, b.cs, demoModel); err != nil {
		return err
	}
	// Replicas are shown as ready a moment before requests are sent to them. To resume one
	// that is in rotation changes nothing, and is answered when the routing has them all.
	_, err = b.cs.replicas.ResumeReplica(ctx, &lmwardenv1.ResumeReplicaRequest{Model: demoModel})
	return err
}
