package vllmd

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// phase is a part of a start: the share of the whole that passes, then its log lines.
type phase struct {
	share float64
	log   func()
}

// logArguments writes what comes before the engine.
func (d *daemon) logArguments() {
	for _, name := range d.opt.duplicates {
		d.log.plain("Found duplicate keys --" + name)
	}
	if n := d.opt.apiServers; n > 1 {
		d.log.info("serve.py:127", "Defaulting api_server_count to data_parallel_size (%d).", n)
	}
	d.log.info("api_utils.py:347", "vLLM version %s (simulated), model %s", d.set.version, d.opt.model)
	d.log.info("api_utils.py:286", "non-default args: {%s}", strings.Join(d.opt.given, ", "))
	d.log.info("model.py:733", "Resolved architecture: %s", d.set.preset.Model.Architecture)
}

// engineLogs returns a logger for each engine core.
func (d *daemon) engineLogs() []*logger {
	logs := make([]*logger, 0, d.opt.dp)
	for _, c := range d.children[:d.opt.dp] {
		logs = append(logs, newLogger(d.stdout, c.title, c.cmd.Process.Pid))
	}
	return logs
}

// phases lists the parts of a start in their order, with the lines by which they are
// known.
func (d *daemon) phases() []phase {
	cfg, m, o := d.srv.cfg, d.set.preset.Model, d.opt
	engines := d.engineLogs()
	all := func(where, format string, args ...any) {
		for _, l := range engines {
			l.info(where, format, args...)
		}
	}
	gib := func(bytes float64) float64 { return bytes / (1 << 30) }
	spent := func(share float64) float64 { return share * d.set.start.Seconds() }
	size := cfg.NumBlocks * cfg.BlockSize
	return []phase{
		{0.10, func() {
			d.log.info("model.py:2152", "Using max model len %d", cfg.MaxModelLen)
			d.log.info("scheduler.py:252", "Chunked prefill is enabled with max_num_batched_tokens=%d.", cfg.MaxBatchedTokens)
			all("core.py:133", "Initializing a V1 LLM engine (v%s) with config: model='%s', max_seq_len=%d, load_format=%s, tensor_parallel_size=%d", d.set.version, o.model, cfg.MaxModelLen, o.loadFormat, o.tp)
		}},
		{0.10, func() {
			all("parallel_state.py:1906", "world_size=%d rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:0 backend=nccl", o.tp)
			all("gpu_model_runner.py:4100", "Starting to load model %s...", o.model)
		}},
		{0.20, func() { d.log.plain("Loading safetensors checkpoint shards:  50% Completed | 1/2 [..]") }},
		{0.20, func() {
			d.log.plain("Loading safetensors checkpoint shards: 100% Completed | 2/2 [..]")
			all("default_loader.py:314", "Loading weights took %.2f seconds", spent(0.4))
			all("gpu_model_runner.py:4130", "Model loading took %.4f GiB memory and %.6f seconds", gib(m.Weights/float64(o.tp)), spent(0.45))
		}},
		{0.15, func() {
			if o.eager {
				return
			}
			if d.set.release.has(compileTook) {
				all("monitor.py:40", "torch.compile took %.2f s in total", spent(0.15))
			} else {
				all("monitor.py:34", "torch.compile takes %.2f s in total", spent(0.15))
			}
		}},
		{0.10, func() {
			all("gpu_worker.py:400", "Available KV cache memory: %.2f GiB", gib(float64(size)*m.KVBytes))
			if o.blocks > 0 {
				all("kv_cache_utils.py:2619", "Overriding num_gpu_blocks=%d with num_gpu_blocks_override=%d", max(0, d.set.preset.Capacity(o.utilization, o.tp, 1)/o.blockSize), o.blocks)
			}
			d.logCacheSize(all, size)
		}},
		{0.15, func() {
			if !o.eager {
				all("gpu_model_runner.py:5200", "Graph capturing finished in %.0f secs, took %.2f GiB", spent(0.15), 0.5)
			}
			all("core.py:402", "init engine (profile, create kv cache, warmup model) took %.2f s", spent(0.4))
			d.log.info("entry.py:136", "Supported tasks: ['generate']")
		}},
	}
}

// logCacheSize says how many tokens fit: in one line or, in earlier releases, in two.
func (d *daemon) logCacheSize(all func(where, format string, args ...any), size int) {
	const where = "kv_cache_utils.py:2327"
	longest := d.srv.cfg.MaxModelLen
	tokens := fmt.Sprintf("GPU KV cache size: %s tokens", grouped(size))
	times := fmt.Sprintf("Maximum concurrency for %s tokens per request: %.2fx", grouped(longest), float64(size)/float64(longest))
	if d.set.release.has(oneSizeLine) {
		all(where, "%s, %s", tokens, times)
		return
	}
	all(where, "%s", tokens)
	all(where, "%s", times)
}

// logReady writes the lines with which serving begins.
func (d *daemon) logReady() {
	for _, f := range d.frontLogs() {
		f.log.info("entry.py:140", "Starting vLLM server on http://%s", d.listener.Addr())
		f.log.info("launcher.py:186", "Available routes are:")
		for _, r := range d.srv.routes() {
			f.log.info("launcher.py:195", "Route: %s, Methods: %s", r.path, strings.Join(r.methods, ", "))
		}
		d.log.plain(fmt.Sprintf("INFO:     Started server process [%d]", f.pid))
		d.log.plain("INFO:     Waiting for application startup.")
		d.log.plain("INFO:     Application startup complete.")
	}
}

// frontLog is the log of one API server.
type frontLog struct {
	log *logger
	pid int
}

// frontLogs returns the API servers' logs: of the processes that stand for them, or of
// this one when it is the only one.
func (d *daemon) frontLogs() []frontLog {
	if d.opt.apiServers == 1 {
		return []frontLog{{d.log, os.Getpid()}}
	}
	var logs []frontLog
	for _, c := range d.fronts {
		pid := c.cmd.Process.Pid
		logs = append(logs, frontLog{newLogger(d.stdout, c.title, pid), pid})
	}
	return logs
}

// logStopped writes the last lines.
func (d *daemon) logStopped() {
	d.log.plain("INFO:     Waiting for application shutdown.")
	d.log.plain("INFO:     Application shutdown complete.")
}

// statsInterval is how often a busy engine logs its figures.
const statsInterval = 10 * time.Second

// statsLog writes an engine's figures to the log while it is not idle.
type statsLog struct {
	done chan struct{}
	wg   sync.WaitGroup
}

// newStatsLog starts the log of a deployment with one API server; with several vLLM has none.
func newStatsLog(s *server) *statsLog {
	l := &statsLog{done: make(chan struct{})}
	if s.opt.apiServers > 1 || !s.opt.statsLog {
		return l
	}
	l.wg.Go(func() {
		tick := time.NewTicker(statsInterval)
		defer tick.Stop()
		last, busy := make([]engine.Stats, len(s.cores)), make([]bool, len(s.cores))
		for {
			select {
			case <-tick.C:
			case <-l.done:
				return
			}
			for i, c := range s.cores {
				c.mu.Lock()
				st := c.stats()
				c.mu.Unlock()
				now := st.Running+st.Waiting > 0 || st.Steps != last[i].Steps
				if now || busy[i] {
					s.logStats(c.rank, last[i], st)
				}
				last[i], busy[i] = st, now
			}
		}
	})
	return l
}

func (l *statsLog) stop() {
	close(l.done)
	l.wg.Wait()
}

// logStats writes one line about the time between two states.
func (s *server) logStats(rank int, a, b engine.Stats) {
	per := statsInterval.Seconds()
	prompt := float64((b.PromptTokens-b.CachedTokens)-(a.PromptTokens-a.CachedTokens)) / per
	hit := 0.0
	if b.PrefixQueries > 0 {
		hit = 100 * float64(b.PrefixHits) / float64(b.PrefixQueries)
	}
	s.log.info("loggers.py:335", "Engine %03d: Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, Running: %d reqs, Waiting: %d reqs, GPU KV cache usage: %.1f%%, Prefix cache hit rate: %.1f%%",
		rank, prompt, float64(b.Generated-a.Generated)/per, b.Running, b.Waiting, 100*float64(b.UsedBlocks)/float64(b.Blocks), hit)
}
