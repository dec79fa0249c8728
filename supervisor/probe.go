package supervisor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

// newProbeClient makes the client that asks engines. It keeps no connections: vLLM
// ends slowly while one is open, and two short ones a second cost nothing.
func newProbeClient() *http.Client {
	return &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, Proxy: nil},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is one look at an engine.
type answer struct {
	health  error // nil when /health said 200 in time
	late    bool  // its health is only slow so far, as that of a busy engine is
	refused bool  // the engine itself says that it is dead, or nobody listens
	ready   bool  // it has answered a request, now or earlier
	token   error // why the request for one token failed
	wedged  error // why it counts as wedged although its health is good; nil when it does not
	figures vllm.Figures
	scrape  error // why the metrics could not be read
}

// newProber makes the prober of a life.
func (r *replica) newProber(w wish, l *life) *prober {
	t := r.sup.opts.Timing
	p := &prober{client: r.sup.client, base: strings.TrimSuffix(l.url, "/"), key: l.key, served: w.spec.ServedModel, timing: t}
	p.pulse = pulse{
		still: t.StillAfter, timeout: t.StillTimeout, token: p.oneToken,
		inFlight: func() int {
			if known := r.sup.opts.Hooks.InFlight; known != nil {
				return known(r.id)
			}
			return 0
		},
	}
	return p
}

// prober looks at one engine, over and over, from a goroutine of its own, so that an
// engine that hangs never holds up the replica's.
type prober struct {
	client *http.Client
	base   string
	key    string // that the engine asks for, or empty
	served string // name for the request; asked for when empty
	timing Timing

	ready  bool
	hung   bool         // the last probe of its health had no answer at all
	static vllm.Figures // version and longest context, read once
	pulse  pulse
}

// loop sends what it sees until ctx ends.
func (p *prober) loop(ctx context.Context, out chan<- answer) {
	defer p.pulse.stop()
	for {
		pause := p.timing.StartProbe
		if p.ready {
			pause = p.timing.Probe
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		tell := func(a answer) {
			select {
			case <-ctx.Done():
			case out <- a:
			}
		}
		tell(p.look(ctx, tell))
	}
}

// look asks for the health, then, until that has worked once, for a token, then for
// the figures. That the health is late is told at once through tell.
func (p *prober) look(ctx context.Context, tell func(answer)) answer {
	a := answer{ready: p.ready, wedged: p.pulse.wedged}
	if a.late, a.health = p.health(ctx, tell); a.health != nil {
		a.refused = !a.late && !isTimeout(a.health)
		return a
	}
	if !p.ready {
		if a.token = p.first(ctx); a.token != nil {
			return a
		}
		p.ready = true
	}
	a.ready = true
	if a.figures, a.scrape = p.scrape(ctx); a.scrape == nil {
		a.wedged = p.pulse.beat(ctx, a.figures, time.Now())
	}
	return a
}

// health asks for the health. An answer that comes late, but comes, is one of an engine
// that is busy: asking again every few seconds would never hear it, and would add to
// what the engine has to do.
func (p *prober) health(ctx context.Context, tell func(answer)) (late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timing.HungAfter)
	defer cancel()
	began := time.Now()
	result := make(chan error, 1)
	go func() {
		_, err := p.ask(ctx, "/health", 0)
		result <- err
	}()
	inTime := time.NewTimer(p.timing.ProbeTimeout)
	defer inTime.Stop()
	select {
	case err := <-result:
		p.hung = isTimeout(err) // late and hung may come at one moment
		return false, err
	case <-inTime.C:
	}
	if !p.hung { // one that hung must not come back into rotation for being asked again
		tell(answer{ready: p.ready, wedged: p.pulse.wedged, late: true, health: fmt.Errorf("%s/health has not answered for %s", p.base, p.timing.ProbeTimeout)})
	}
	err = <-result
	if p.hung = isTimeout(err); err != nil {
		return false, err
	}
	return true, fmt.Errorf("%s/health took %s to answer", p.base, time.Since(began).Round(100*time.Millisecond))
}

// first asks for one token, and for what does not change afterwards.
func (p *prober) first(ctx context.Context) error {
	var models struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen *int64 `json:"max_model_len"`
		} `json:"data"`
	}
	// The length bounds what is sent to this engine; without it, and without a version, it can
	// still serve.
	if body, err := p.get(ctx, "/v1/models", 1<<20); err == nil && json.Unmarshal(body, &models) == nil && len(models.Data) > 0 {
		if p.served == "" {
			p.served = models.Data[0].ID
		}
		p.static.MaxModelLen = models.Data[0].MaxModelLen
		for _, m := range models.Data { // an engine elsewhere may serve several
			if m.ID == p.served {
				p.static.MaxModelLen = m.MaxModelLen
			}
		}
	}
	var version struct {
		Version string `json:"version"`
	}
	if body, err := p.get(ctx, "/version", 1<<16); err == nil && json.Unmarshal(body, &version) == nil {
		p.static.Version = version.Version
	}
	ctx, cancel := context.WithTimeout(ctx, p.timing.TokenTimeout)
	defer cancel()
	return p.oneToken(ctx)
}

// oneToken asks for one token.
func (p *prober) oneToken(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"model": p.served, "prompt": "Hi", "max_tokens": 1})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.base+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	text, err := p.do(req, 1<<20)
	if err != nil {
		return err
	}
	var completion struct {
		Choices []json.RawMessage `json:"choices"`
	}
	if err := json.Unmarshal(text, &completion); err != nil || len(completion.Choices) == 0 {
		return fmt.Errorf("POST %s/v1/completions was answered without a choice", p.base)
	}
	return nil
}

func (p *prober) scrape(ctx context.Context) (vllm.Figures, error) {
	text, err := p.get(ctx, "/metrics", vllm.MaxMetricsBytes)
	if err != nil {
		return p.static, err
	}
	f, err := vllm.ParseMetrics(text)
	if err != nil {
		return p.static, err
	}
	f.At = time.Now()
	return f.Merge(p.static), nil
}

// statusError is an answer that is not 200.
type statusError struct {
	url  string
	code int
	text string
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("%s was answered with %d %s", e.url, e.code, http.StatusText(e.code))
	if e.text != "" {
		text += ": " + e.text
	}
	return text
}

func (p *prober) get(ctx context.Context, path string, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timing.ProbeTimeout)
	defer cancel()
	return p.ask(ctx, path, limit)
}

func (p *prober) ask(ctx context.Context, path string, limit int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return nil, err
	}
	return p.do(req, limit)
}

func (p *prober) do(req *http.Request, limit int64) ([]byte, error) {
	if p.key != "" {
		req.Header.Set("Authorization", "Bearer "+p.key)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		return nil, &statusError{req.URL.String(), resp.StatusCode, strings.TrimSpace(string(text))}
	}
	return io.ReadAll(io.LimitReader(resp.Body, limit))
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
