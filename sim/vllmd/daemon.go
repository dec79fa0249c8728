package vllmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// keepAlive is how long an idle connection stays open, as with uvicorn.
const keepAlive = 5 * time.Second

// deathDelay is how long the process lives on with a dead engine, in which /health
// answers 503.
const deathDelay = 2 * time.Second

// daemon is the life of one `vllm serve` process: start, serve, end.
type daemon struct {
	opt            options
	set            settings
	prefix         []string
	stdout, stderr io.Writer
	log            *logger
	signals        chan os.Signal
	exit           chan int    // an exit code from a fault, or from a dead engine
	death          *time.Timer // of the fault that ends the process; owned by applyFaults

	srv      *server
	http     *http.Server
	listener *net.TCPListener
	children []*child
	fronts   []*child    // of the children, those that stand for API servers
	dead     chan string // titles of children that ended by themselves
}

// run starts the engine, serves until something ends it, and returns the exit code.
func (d *daemon) run() int {
	sock, err := bind(d.opt.host, d.opt.port)
	if err != nil {
		return d.die(fmt.Errorf("OSError: [Errno 98] Address already in use: %s port %d (%w)", d.opt.host, d.opt.port, err))
	}
	defer sock.close()
	d.logArguments()
	if d.srv, err = newServer(d.opt, d.set, d.log); err != nil {
		// The real engine finds out after it has loaded the weights.
		if !d.pause(d.set.start / 2) {
			return exitError
		}
		d.log.error("core.py:1400", "EngineCore failed to start.")
		return d.die(err)
	}
	defer d.srv.close()
	if code, ok := d.startEngine(); !ok {
		return code
	}
	if d.listener, err = sock.listen(); err != nil {
		d.killChildren()
		return d.die(fmt.Errorf("OSError: %w", err))
	}
	d.srv.faults.onChange = d.applyFaults
	d.applyFaults(d.set.faults)
	return d.serveUntilEnd()
}

// die reports an error that prevents the start.
func (d *daemon) die(err error) int {
	fmt.Fprintf(d.stderr, "Traceback (most recent call last):\n  File \"vllm/entrypoints/cli/serve.py\", line 152, in cmd\n%v\n", err)
	return exitError
}

// pause lets a part of the start pass. False means that a signal came or that a child
// has ended.
func (d *daemon) pause(t time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), t)
	defer cancel()
	return d.wait(ctx.Done())
}

// wait waits for something of the start. False means what it means for pause.
func (d *daemon) wait(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-d.signals:
		fmt.Fprintln(d.stderr, "KeyboardInterrupt: terminated")
		return false
	case title := <-d.dead:
		fmt.Fprintf(d.stderr, "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'%s'}\n", title)
		return false
	}
}

// startEngine starts the child processes and lets the phases of a start pass.
func (d *daemon) startEngine() (code int, ok bool) {
	if err := d.startChildren(); err != nil {
		d.killChildren()
		return d.die(err), false
	}
	d.dead = d.watchChildren()
	for _, ph := range d.phases() {
		if !d.pause(time.Duration(float64(d.set.start) * ph.share)) {
			d.killChildren()
			return exitError, false
		}
		ph.log()
	}
	// On a loaded machine the phases may pass before the processes are there.
	for _, c := range d.children {
		if !d.wait(c.up) {
			d.killChildren()
			return exitError, false
		}
	}
	return 0, true
}

// startChildren starts an engine core for each rank, a coordinator when there are
// several, and the orphan that a fault asks for.
func (d *daemon) startChildren() error {
	for rank := range d.opt.dp {
		title := "EngineCore"
		if d.opt.dp > 1 {
			title = fmt.Sprintf("EngineCore_DP%d", rank)
		}
		var workers []string
		if d.opt.tp > 1 || d.opt.dp > 1 {
			workers = []string{strconv.Itoa(d.opt.tp)}
		}
		c, err := startChild(d.prefix, title, roleEngine, d.stdout, false, workers...)
		if err != nil {
			return err
		}
		d.children = append(d.children, c)
	}
	if d.opt.dp > 1 {
		c, err := startChild(d.prefix, "DPCoordinator", roleCoordinator, d.stdout, false)
		if err != nil {
			return err
		}
		d.children = append(d.children, c)
		d.log.info("utils.py:1245", "Started DP Coordinator process (PID: %d)", c.cmd.Process.Pid)
	}
	if err := d.startFronts(); err != nil {
		return err
	}
	if _, on := d.set.faults[faultOrphan]; on {
		// Nobody waits for it or ends it: that is the fault.
		if _, err := startChild(d.prefix, "Worker_orphan", roleOrphan, d.stdout, false); err != nil {
			return err
		}
	}
	return nil
}

// startFronts starts a process for each of several API servers. It is this process that
// answers; they exist so that they can be seen, and killed.
func (d *daemon) startFronts() error {
	if d.opt.apiServers == 1 {
		return nil
	}
	for i := range d.opt.apiServers {
		c, err := startChild(d.prefix, fmt.Sprintf("APIServer_%d", i), roleFront, d.stdout, false)
		if err != nil {
			return err
		}
		c.title = fmt.Sprintf("ApiServer_%d", i) // as the log spells it
		d.children, d.fronts = append(d.children, c), append(d.fronts, c)
	}
	d.log.info("utils.py:261", "Started %d API server processes", d.opt.apiServers)
	return nil
}

// killChildren ends the children that still live.
func (d *daemon) killChildren() {
	for _, c := range d.children {
		c.kill(syscall.SIGTERM)
	}
}

// serveUntilEnd answers requests until a signal, a fault or a dead engine ends it.
func (d *daemon) serveUntilEnd() int {
	d.http = &http.Server{
		Handler: d.srv.handler, IdleTimeout: keepAlive, ConnContext: d.srv.accepted,
		ErrorLog: stdlog.New(io.Discard, "", 0), // aborted connections are normal here
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := d.http.Serve(faultyListener{d.listener, d.srv.faults})
		if !errors.Is(err, http.ErrServerClosed) {
			d.log.error("launcher.py:300", "the listener failed: %v", err)
		}
	}()
	d.logReady()
	stats := newStatsLog(d.srv)
	defer stats.stop()
	for {
		select {
		case <-d.signals:
			if d.srv.faults.has(faultIgnoreTerm) {
				d.log.warn("launcher.py:1", "a signal to end is ignored: the fault %s is on", faultIgnoreTerm)
				continue
			}
			d.shutdown()
			<-done
			return exitOK
		case code := <-d.exit:
			os.Exit(code) // at once, with children left behind, as a crash does
		case title := <-d.dead:
			if d.terminated() {
				d.shutdown()
				<-done
				return exitOK
			}
			return d.engineDied(title)
		}
	}
}

// groupDelay is how far apart a signal to a whole process group can reach its members.
const groupDelay = 200 * time.Millisecond

// terminated tells the end of a child by a signal to the whole group, which reaches
// this process too, from a death of its own.
func (d *daemon) terminated() bool {
	select {
	case <-d.signals:
		return !d.srv.faults.has(faultIgnoreTerm)
	case <-time.After(groupDelay):
		return false
	}
}

// watchChildren tells of children that ended by themselves.
func (d *daemon) watchChildren() chan string {
	dead := make(chan string, len(d.children))
	for _, c := range d.children {
		go func() {
			<-c.gone
			if !c.ended.Load() {
				dead <- c.title
			}
		}()
	}
	return dead
}

// engineDied is what happens when an engine core ends: /health is 503, requests fail,
// and the process ends soon. A data-parallel deployment ends as a whole.
func (d *daemon) engineDied(title string) int {
	// What the log says is true by then, for those who read it.
	d.srv.dead.Store(true)
	for _, c := range d.srv.cores {
		c.fail(errEngineDead)
	}
	what := "Engine core proc " + title
	if strings.HasPrefix(title, "ApiServer") {
		what = "Process " + title
	}
	d.log.error("core_client.py:640", "%s died unexpectedly, shutting down client.", what)
	time.Sleep(deathDelay)
	d.killChildren()
	// Open connections have had their error; what is still open is cut.
	_ = d.http.Close()
	d.logStopped()
	if d.opt.dp > 1 || d.opt.apiServers > 1 {
		fmt.Fprintf(d.stderr, "RuntimeError: %s died unexpectedly.\n", strings.Replace(what, "proc ", "process ", 1))
		return exitError
	}
	return exitOK
}

// shutdown is what SIGTERM does. With a budget the engine finishes what it has, up to
// the budget, and takes nothing new. Then the engine is killed, and the process waits
// for its open connections: those of unfinished answers never end by themselves.
func (d *daemon) shutdown() {
	mode := "abort"
	if d.opt.shutdownAfter > 0 {
		mode = "drain"
	}
	refusal := errDrained
	if d.set.release.has(drainRefusesAsDead) {
		refusal = errShutdown
	}
	for _, c := range d.srv.cores {
		c.refuse(refusal)
	}
	trail := func(where, format string, args ...any) {
		if d.set.release.has(shutdownTrail) {
			d.log.info(where, "[shutdown] "+format, args...)
		}
	}
	trail("launcher.py:254", "API server: shutdown triggered")
	trail("launcher.py:270", "API server: stopping engine client mode=%s timeout=%ds", mode, d.opt.shutdownAfter)
	d.drain(time.Duration(d.opt.shutdownAfter) * time.Second)
	for _, c := range d.srv.cores {
		c.close()
	}
	d.killChildren()
	trail("launcher.py:279", "API server: engine client stopped")
	if trail("launcher.py:304", "API server: shutting down FastAPI HTTP server"); !d.set.release.has(shutdownTrail) {
		d.log.info("launcher.py:110", "Shutting down FastAPI HTTP server.")
	}
	d.log.plain("INFO:     Shutting down")
	// Without a deadline: this is where vLLM hangs on a stream that has lost its engine.
	_ = d.http.Shutdown(context.Background())
	d.logStopped()
}

// drain waits until no request runs, at most for the budget.
func (d *daemon) drain(budget time.Duration) {
	if budget == 0 {
		return
	}
	deadline := time.NewTimer(budget)
	defer deadline.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		busy := 0
		for _, c := range d.srv.cores {
			busy += c.busy()
		}
		if busy == 0 {
			return
		}
		select {
		case <-look.C:
		case <-deadline.C:
			return
		}
	}
}

// applyFaults sets in motion what faults need, and ends what those before them did. It
// runs once at a time.
func (d *daemon) applyFaults(on map[string]fault) {
	_, wedged := on[faultWedge]
	for _, c := range d.srv.cores {
		c.freeze(wedged)
	}
	if d.death != nil {
		d.death.Stop()
	}
	if f, ok := on[faultDie]; ok {
		d.death = time.AfterFunc(f.duration, func() {
			select {
			case d.exit <- f.number:
			default:
			}
		})
	}
	if _, ok := on[faultFlood]; ok {
		go d.flood()
	}
}

// flood writes log lines while the fault is on.
func (d *daemon) flood() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for n := 0; d.srv.faults.has(faultFlood); <-tick.C {
		for range 100 {
			n++
			d.log.warn("flood.py:1", "line %d of a log that somebody has forgotten to limit", n)
		}
	}
}
