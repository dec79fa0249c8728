package contract

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/tests/harness"
)

// deploymentRanks is how many engines the deployment has.
const deploymentRanks = 2

// ofDeployment is what the answers of a deployment that have a fingerprint have in it.
var ofDeployment = object{"system_fingerprint": matches(`^vllm-0\.32\.0-dp2-[0-9a-f]{8}$`)}

// TestDeployment holds one deployment of two data-parallel ranks to what a rank is: whom
// the header reaches, how the metrics tell ranks apart, that requests without a header
// reach both, and that the death of one engine ends all. It runs before the others, like
// [TestSwitches].
func TestDeployment(t *testing.T) {
	e := startWith(t, subject(t), "--data-parallel-size", fmt.Sprint(deploymentRanks))
	e.waitReady(t)
	for _, x := range deploymentTable() {
		t.Run(x.name, func(t *testing.T) { x.hold(t, e.url) })
	}
	t.Run("a rank serves whom the header sends", func(t *testing.T) { rankServes(t, e) })
	t.Run("both serve whom no header sends", func(t *testing.T) { bothServe(t, e) })
	t.Run("one engine core is killed", func(t *testing.T) { killRank(t, e) })
}

// deploymentTable is what the rank header does.
func deploymentTable() []exchange {
	wholes := map[string]object{
		"/v1/chat/completions": chatBody.with(ofDeployment), "/v1/completions": completionBody.with(ofDeployment), "/v1/messages": messageBody,
	}
	var all []exchange
	for _, s := range surfaces() {
		whole, honoured := wholes[s.path]
		if !honoured {
			whole = responseDone.with(object{"instructions": nil})
		}
		body := `{"model":"tiny",` + strings.ReplaceAll(s.prompt, "PROMPT", "count") + `,"` + s.limit + `":8,"temperature":0}`
		for _, rank := range []string{"0", "1", "2", "-1", "x", ""} {
			x := exchange{name: s.path + ": rank " + rank, path: s.path, header: []string{"X-Data-Parallel-Rank", rank}, body: body, want: whole}
			if honoured && (rank == "2" || rank == "-1") {
				x.status, x.want = 400, s.refusal("BadRequestError", nil, 400, `^data_parallel_rank `+rank+` is out of range \[0, 2\)\.$`)
			}
			all = append(all, x)
		}
	}
	return all
}

// served returns how many requests each rank has ended, by the label engine.
func (e *engine) served(t *testing.T) (ranks [deploymentRanks]float64) {
	t.Helper()
	found := e.scrape(t)
	for i := range ranks {
		ranks[i] = sum(found, "vllm:request_success_total", "engine", fmt.Sprint(i))
	}
	return ranks
}

// completeWith asks for a few tokens with those headers.
func completeWith(t *testing.T, e *engine, prompt string, header ...string) {
	t.Helper()
	exchange{
		path: "/v1/completions", header: header, want: completionBody.with(ofDeployment),
		body: `{"model":"tiny","prompt":"` + prompt + `","max_tokens":4,"temperature":0,"ignore_eos":true}`,
	}.hold(t, e.url)
}

// waitServed waits until so many more requests than before are counted, and returns by how
// many each rank has more: the figures come a moment after the answer.
func (e *engine) waitServed(t *testing.T, before [deploymentRanks]float64, more float64) (by [deploymentRanks]float64) {
	t.Helper()
	harness.Within(t, soon, func() error {
		total := 0.0
		for i, n := range e.served(t) {
			by[i] = n - before[i]
			total += by[i]
		}
		if total != more {
			return fmt.Errorf("the ranks counted %v more, want %v in all", by, more)
		}
		return nil
	})
	return by
}

func rankServes(t *testing.T, e *engine) {
	for rank := range deploymentRanks {
		before := e.served(t)
		for i := range 3 {
			completeWith(t, e, fmt.Sprint("rank ", i), "X-Data-Parallel-Rank", fmt.Sprint(rank))
		}
		if by := e.waitServed(t, before, 3); by[rank] != 3 {
			t.Errorf("of three requests for rank %d the ranks served %v", rank, by)
		}
	}
}

func bothServe(t *testing.T, e *engine) {
	before := e.served(t)
	for i := range 16 {
		completeWith(t, e, fmt.Sprint("balanced ", i))
	}
	for rank, n := range e.waitServed(t, before, 16) {
		if n == 0 {
			t.Errorf("rank %d served none of 16 requests without a header", rank)
		}
	}
}

// killRank: the death of one engine core ends the deployment, the other core included.
func killRank(t *testing.T, e *engine) {
	core := e.core()
	if core == 0 {
		t.Fatalf("no engine core among %v", e.group())
	}
	if err := syscall.Kill(core, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// A real one stops answering within seconds and takes its time to end: its workers notice
	// last.
	code := e.exitCode(t, 4*time.Minute)
	t.Logf("the exit code is %d", code)
	e.waitEmpty(t, 2*time.Minute)
}
