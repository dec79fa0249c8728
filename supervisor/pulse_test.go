package supervisor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// patient is an engine as a pulse sees it, read once a second.
type patient struct {
	pulse
	running, used, generated, steps float64
	sent                            int        // by the proxy
	asked                           int        // requests for a token
	says                            chan error // what the next of them is answered
}

func newPatient(t *testing.T) *patient {
	p := &patient{says: make(chan error)}
	d := Timing{}.withDefaults()
	p.pulse = pulse{
		still: d.StillAfter, timeout: d.StillTimeout,
		inFlight: func() int { return p.sent },
		token: func(ctx context.Context) error {
			p.asked++
			select {
			case err := <-p.says:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	t.Cleanup(p.stop)
	return p
}

// watch reads so often, a second apart, after change was called, and returns the last verdict.
func (p *patient) watch(seconds int, change func()) (wedged error) {
	for range seconds {
		time.Sleep(time.Second) // of the bubble's clock
		synctest.Wait()
		change()
		wedged = p.beat(context.Background(), vllm.Figures{
			Running: &p.running, KVUsed: &p.used, GenerationTokens: &p.generated, Steps: &p.steps,
		}, time.Now())
	}
	return wedged
}

func nothing() {}

func TestPulse(t *testing.T) {
	for _, c := range []struct {
		name   string
		run    func(p *patient) error
		asked  int
		wedged string // part of the reason; empty when it is not
	}{
		{"an idle engine is left alone", func(p *patient) error { return p.watch(600, nothing) }, 0, ""},
		{"tokens come", func(p *patient) error {
			p.running = 3
			return p.watch(600, func() { p.generated++ })
		}, 0, ""},
		{"a long prompt takes blocks, chunk by chunk, and no token comes for ten minutes", func(p *patient) error {
			p.running = 1
			seconds := 0
			return p.watch(600, func() {
				if seconds++; seconds%10 == 0 {
					p.used += 0.001
				}
			})
		}, 0, ""},
		{"the token queues behind slow steps", func(p *patient) error {
			p.running = 1
			seconds := 0
			return p.watch(600, func() {
				if seconds++; seconds%30 == 0 {
					p.steps++
				}
			})
		}, 20, ""},
		{"nothing moves", func(p *patient) error {
			p.running = 2
			return p.watch(40, nothing)
		}, 2, "has done nothing for 35s, and gave no token within 20s"},
		{"its gauges say nothing, the proxy does", func(p *patient) error {
			p.sent = 1
			return p.watch(40, nothing)
		}, 2, "has done nothing"},
		{"clients that give up between readings hide nothing", func(p *patient) error {
			return p.watch(41, func() { p.sent = 1 - p.sent })
		}, 2, "has done nothing"},
		{"out of rotation and idle it stays wedged", func(p *patient) error {
			p.sent = 1
			p.watch(40, nothing)
			p.sent = 0
			return p.watch(100, nothing)
		}, 7, "has done nothing for 35s"},
		{"a token ends the suspicion", func(p *patient) error {
			p.running = 2
			p.watch(40, nothing)
			p.says <- nil
			return p.watch(1, nothing)
		}, 2, ""},
		{"a sign of life ends the suspicion", func(p *patient) error {
			p.running = 2
			p.watch(40, nothing)
			return p.watch(1, func() { p.generated++ })
		}, 2, ""},
		{"a refusal is no hang", func(p *patient) error {
			p.running = 2
			p.watch(16, nothing)
			p.says <- errors.New("429")
			return p.watch(14, nothing)
		}, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPatient(t)
				err := c.run(p)
				synctest.Wait()
				if (err != nil) != (c.wedged != "") || err != nil && !strings.Contains(err.Error(), c.wedged) {
					t.Errorf("wedged: %v, want %q", err, c.wedged)
				}
				if p.asked != c.asked {
					t.Errorf("it was asked for a token %d times, want %d", p.asked, c.asked)
				}
			})
		})
	}
}

// An engine with steps of a minute is suspected once, and never again.
func TestPulseLearnsPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t)
		p.running = 1
		suspected, was := 0, false
		seconds := 0
		for range 600 {
			err := p.watch(1, func() {
				if seconds++; seconds%60 == 0 {
					p.generated++
				}
			})
			if err != nil && !was {
				suspected++
			}
			was = err != nil
		}
		if suspected != 1 {
			t.Errorf("suspected %d times, want once", suspected)
		}
		if err := p.watch(200, nothing); err == nil {
			t.Error("it is never found wedged any more")
		}
	})
}

func TestPulseNeedsCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPatient(t)
		p.sent = 1
		for range 100 {
			time.Sleep(time.Second)
			if err := p.beat(t.Context(), vllm.Figures{}, time.Now()); err != nil || p.asked != 0 {
				t.Fatalf("an engine without counters: %v, asked %d times", err, p.asked)
			}
		}
	})
}
