//go:build measure

package vllm

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/lmwarden/lmwarden/bench"
	"github.com/lmwarden/lmwarden/bench/report"
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/sim/run/load"
	"github.com/lmwarden/lmwarden/tests/harness"
)

var (
	measureSteps    = flag.String("steps", "4,8,16,24", "numbers of sessions at the same time")
	measureDuration = flag.Duration("step", 60*time.Second, "length of a step")
	measureWarmup   = flag.Duration("warmup", 25*time.Second, "time before each step that is not counted")
	measureRounds   = flag.Int("rounds", 1, "how often each step of each arm is run")
	measureResume   = flag.String("resume", "", "file that keeps what is measured, and from which the series goes on")
)

const (
	measured     = "tiny"
	withoutDoor  = "none"
	withDoor     = "working set"
	cacheBlocks  = 200              // of each engine
	cacheBlock   = 32               // tokens
	engineStart  = 12 * time.Minute // 45 s to 2 min on a quiet machine
	leastHits    = 80.0             // percent, with admission, when more want in than fit
	leastGain    = 1.4              // output with admission over that without, at 24 sessions
	overloadFrom = 16               // sessions that do not fit any more
)

// tinyTalks are conversations of which about ten fit into two such caches: 300 shared
// tokens, 760 of their own, five more turns of 40, answers of 32.
func tinyTalks() load.Load {
	return load.Load{
		Name: "tiny", About: "300 shared, 760 of their own, five more turns of 40 tokens, answers of 32",
		Sessions: 8, SharedTokens: 300, First: load.Size{Min: 740, Max: 780}, Turns: 6,
		TurnTokens: 40, OutputTokens: 32, Think: load.Fixed(100 * time.Millisecond),
	}
}

// measuredConfig says where the engine is. It computes on the processor.
func measuredConfig(engine string) string {
	return fmt.Sprintf(`
engine:
  command: [%q]
  device: ENGINE_DEVICE_CPU
  drain_timeout: 3s
`, filepath.Join(engine, "venv/bin/vllm"))
}

// largerModel copies the tiny model and gives it the size at which a processor reads and
// writes in about the proportion of the card that the seed was measured on: to read a
// conversation of 1,050 tokens again takes two to three times as long as a turn of 32
// tokens takes of a batch of four (there 3.3 s and 1.4 s). The tiny model reads it in a
// hundredth of a second, so that nothing is gained by what is cached. Its answers end with
// the end of a turn only: the tiny model's own generation ends most of them early.
func largerModel(t *testing.T, tiny string) string {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	text, err := os.ReadFile(filepath.Join(tiny, "config.json"))
	if err == nil {
		err = json.Unmarshal(text, &config)
	}
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config, map[string]any{
		"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 4,
		"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64,
	})
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"config.json": text, "generation_config.json": []byte(`{"eos_token_id": 2}`)} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// makeModel makes the larger model as two replicas with a cache that is small on purpose. It
// is not declared in the file, so that its door can be switched while it runs.
func (r *rig) makeModel(engine string) {
	_, err := r.Models.CreateModel(r.t.Context(), &lmwardenv1.CreateModelRequest{
		Name: measured,
		Spec: &lmwardenv1.ModelSpec{
			Source: largerModel(r.t, filepath.Join(engine, "model")), Replicas: 2,
			MaxModelLen: proto.Uint32(4096), MaxNumSeqs: proto.Uint32(8),
			// bf16 kernels of the CPU build end some processors with SIGILL at the first token.
			ExtraArgs: []string{
				"--load-format", "dummy", "--enforce-eager", "--dtype", "float32",
				"--block-size", fmt.Sprint(cacheBlock), "--num-gpu-blocks-override", fmt.Sprint(cacheBlocks),
			},
			Env: map[string]string{
				"ONEDNN_MAX_CPU_ISA": "AVX512_CORE", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
				"OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1",
			},
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// rig is the daemon with its engines, and what was measured on it.
type rig struct {
	*harness.Daemon
	t      *testing.T
	ledger *report.Ledger
	since  time.Time // begin of the step
}

// TestMeasure runs the same conversations against two real engines without and with
// admission, prints the table and holds it to what admission promises. It is a
// measurement: run it on a machine that does nothing else.
func TestMeasure(t *testing.T) {
	engine := os.Getenv("LMWARDEN_VLLM")
	if engine == "" {
		t.Fatal("LMWARDEN_VLLM is not set: run make measure-vllm")
	}
	talks := bench.Load{Load: tinyTalks(), BytesPerToken: 4}
	ledger, err := report.OpenLedger(*measureResume, map[string]any{
		"load": talks, "step": measureDuration.String(), "warmup": measureWarmup.String(), "blocks": cacheBlocks, "block": cacheBlock,
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Daemon: harness.Start(t, harness.Options{Config: measuredConfig(engine)}), t: t, ledger: ledger}
	r.makeModel(engine)
	r.waitReady()

	client := &bench.Client{BaseURL: r.InferenceURL, Model: measured, API: bench.Messages, HTTP: bench.NewHTTPClient(64)}
	if talks.BytesPerToken, err = client.Calibrate(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	_, err = bench.Ramp(t.Context(), bench.RampOptions{
		Arms: []string{withoutDoor, withDoor}, Steps: steps(t), Rounds: *measureRounds, Duration: *measureDuration,
		Step:   bench.StepOptions{Client: client, Load: talks, Seed: 1, Salt: fmt.Sprint(time.Now().UnixNano()), Busy: r.busy, Warmup: *measureWarmup},
		Switch: r.admission,
		Done: func(arm string, sessions, round int) bool {
			_, done := ledger.Find(arm, sessions, round)
			return done
		},
		OnStep: func(arm string, sessions, round int) {
			r.since = time.Now()
			t.Logf("round %d, admission %s, %d sessions ...", round, arm, sessions)
		},
		OnResult: r.keep,
	})
	rows := report.Summarize(ledger.Runs())
	fmt.Print(table(rows))
	if err != nil {
		t.Fatal(err)
	}
	judge(t, rows)
}

// steps reads the numbers of sessions.
func steps(t *testing.T) (out []int) {
	for text := range strings.SplitSeq(*measureSteps, ",") {
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 || n > 60 {
			t.Fatalf("-steps has %q; it must be numbers from 1 to 60, such as 4,8,16,24", text)
		}
		out = append(out, n)
	}
	return out
}

// waitReady waits until both replicas are ready and have told how much their caches hold.
func (r *rig) waitReady() {
	harness.Within(r.t, engineStart, func() error {
		answer, err := r.Replicas.ListReplicas(r.t.Context(), &lmwardenv1.ListReplicasRequest{Model: measured})
		if err != nil {
			return err
		}
		if len(answer.GetReplicas()) != 2 {
			return errors.New("there are no two replicas yet")
		}
		for _, one := range answer.GetReplicas() {
			switch {
			case one.GetState() == lmwardenv1.ReplicaState_REPLICA_STATE_FAILED:
				r.t.Fatalf("replica %d failed: %s", one.GetIndex(), one.GetMessage())
			case one.GetState() != lmwardenv1.ReplicaState_REPLICA_STATE_READY:
				return fmt.Errorf("replica %d is %s (%s)", one.GetIndex(), one.GetState(), one.GetPhase())
			case one.GetCapacityTokens() > cacheBlock*cacheBlocks || one.GetCapacityTokens() < cacheBlock*(cacheBlocks-2):
				return fmt.Errorf("replica %d says that its cache holds %d tokens, want %d", one.GetIndex(), one.GetCapacityTokens(), cacheBlock*cacheBlocks)
			}
		}
		return nil
	})
}

// admission switches the door. The settings are else the seed's: least loaded, count.
func (r *rig) admission(ctx context.Context, arm string) error {
	set := &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_NONE}
	if arm == withDoor {
		set.Admission = lmwardenv1.Admission_ADMISSION_WORKING_SET
	}
	_, err := r.Routing.UpdateRouting(ctx, &lmwardenv1.UpdateRoutingRequest{
		Model: measured, Settings: set, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"admission"}},
	})
	return err
}

// busy counts the engines that run requests, by their own figures.
func (r *rig) busy(ctx context.Context) (n int, known bool) {
	answer, err := r.Routing.GetRouting(ctx, &lmwardenv1.GetRoutingRequest{Model: measured})
	if err != nil {
		return 0, false
	}
	for _, one := range answer.GetCard().GetReplicas() {
		known = known || one.Running != nil
		if one.GetRunning() > 0 {
			n++
		}
	}
	return n, known
}

// keep notes a step, with how many of its requests waited at the door.
func (r *rig) keep(s bench.Step) {
	answer, err := r.Stats.ListRequests(r.t.Context(), &lmwardenv1.ListRequestsRequest{Model: measured, PageSize: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	waited := 0
	for _, one := range answer.GetRequests() {
		if one.GetArrived().AsTime().After(r.since) && one.GetHeld().AsDuration() > 0 {
			waited++
		}
	}
	r.t.Logf("  %d requests, %d errors, %d held, %.0f output tokens a minute", s.Requests, s.Errors, waited, s.OutputTokensPerMinute)
	run := report.Of(s, 1)
	run.Held = &waited
	if err := r.ledger.Add(run); err != nil {
		r.t.Fatal(err)
	}
}

// place names a row.
func place(arm string, sessions int) string { return fmt.Sprintf("%s %d", arm, sessions) }

// table prints what was measured, for a document.
func table(rows []report.Row) string {
	var b strings.Builder
	heads := append(report.Headings(false), "held")
	fmt.Fprintf(&b, "\n| %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(heads)))
	for _, row := range rows {
		waited := "not kept"
		if n, known := held(row); known {
			waited = fmt.Sprint(n)
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(append(report.Cells(row, row.Runs > 1)[:len(heads)-1], waited), " | "))
	}
	return b.String() + "\n"
}

// held counts the requests of a row that waited at the door; it is not known when one of
// its runs was kept without.
func held(row report.Row) (n int, known bool) {
	for _, run := range row.PerRun {
		if run.Held == nil {
			return 0, false
		}
		n += *run.Held
	}
	return n, true
}

// judge holds the table to what admission promises, as far as the steps were run.
func judge(t *testing.T, rows []report.Row) {
	output := map[string]float64{}
	for _, row := range rows {
		if row.OutputTokensPerMinute == nil || row.Errors != nil && *row.Errors > 0 {
			t.Errorf("admission %s at %d sessions: requests failed or nothing was answered", row.Arm, row.Sessions)
			continue
		}
		output[place(row.Arm, row.Sessions)] = *row.OutputTokensPerMinute
		if row.Arm == withDoor && row.Sessions >= overloadFrom && (row.HitPercent == nil || *row.HitPercent < leastHits) {
			t.Errorf("hits with admission at %d sessions are below %.0f %%", row.Sessions, leastHits)
		}
		if n, known := held(row); row.Arm == withDoor && row.Sessions == 4 && (!known || n > 0) {
			t.Errorf("%d requests waited at the door at 4 sessions, where all fit (counted: %t)", n, known)
		}
	}
	with, without := output[place(withDoor, 24)], output[place(withoutDoor, 24)]
	if without == 0 || with == 0 {
		return
	}
	fmt.Printf("At 24 sessions admission gives %.2f times the output that the rule without it gives.\n", with/without)
	if with < leastGain*without {
		t.Errorf("that is below %.1f times", leastGain)
	}
}
