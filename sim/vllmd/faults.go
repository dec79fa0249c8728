package vllmd

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lmwarden/lmwarden/sim/engine"
)

// The names of faults; doc.go says what they do.
const (
	faultRefuse     = "refuse"
	faultHang       = "hang"
	faultWedge      = "wedge"
	fault500        = "500"
	faultCut        = "cut"
	faultSlowStart  = "slow-start"
	faultIgnoreTerm = "ignore-term"
	faultDie        = "die"
	faultFlood      = "flood-log"
	faultOrphan     = "orphan"
)

// fault is one fault that is on.
type fault struct {
	name     string
	text     string        // as it was given
	number   int           // tokens of cut, code of die
	duration time.Duration // of refuse, slow-start and die
}

// parseFault reads NAME, NAME=VALUE or NAME=VALUE@DURATION.
func parseFault(text string) (fault, error) {
	name, value, has := strings.Cut(strings.TrimSpace(text), "=")
	f := fault{name: name, text: strings.TrimSpace(text)}
	var err error
	switch name {
	case faultHang, faultWedge, fault500, faultIgnoreTerm, faultFlood, faultOrphan:
		if has {
			return f, fmt.Errorf("fault %q takes no value", name)
		}
	case faultRefuse:
		if has {
			f.duration, err = time.ParseDuration(value)
		}
	case faultSlowStart:
		f.duration, err = time.ParseDuration(value)
	case faultCut:
		f.number, err = strconv.Atoi(value)
		if err == nil && f.number < 1 {
			err = fmt.Errorf("%d tokens; at least 1 is needed", f.number)
		}
	case faultDie:
		code, after, delayed := strings.Cut(value, "@")
		if f.number, err = strconv.Atoi(code); err == nil && delayed {
			f.duration, err = time.ParseDuration(after)
		}
	default:
		return f, fmt.Errorf("there is no fault %q", name)
	}
	if err != nil {
		return f, fmt.Errorf("fault %q: %w", text, err)
	}
	return f, nil
}

// faults holds the faults that are on. onChange, set once before use, is told of
// those that need somebody to act, of one change after the other.
type faults struct {
	changing sync.Mutex // held over a whole change
	mu       sync.Mutex // guards on and since
	on       map[string]fault
	since    time.Time
	onChange func(map[string]fault)
}

// parseFaults reads a comma separated list.
func parseFaults(list string) (map[string]fault, error) {
	on := make(map[string]fault)
	for text := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		f, err := parseFault(text)
		if err != nil {
			return nil, err
		}
		on[f.name] = f
	}
	return on, nil
}

// set replaces all faults.
func (f *faults) set(on map[string]fault) {
	f.changing.Lock()
	defer f.changing.Unlock()
	f.mu.Lock()
	f.on, f.since = on, time.Now()
	f.mu.Unlock()
	if f.onChange != nil {
		f.onChange(on)
	}
}

// has is true while a fault is on.
func (f *faults) has(name string) bool {
	_, ok := f.get(name)
	return ok
}

// get returns a fault that is on.
func (f *faults) get(name string) (fault, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.on[name]
	if ok && name == faultRefuse && v.duration > 0 && time.Since(f.since) > v.duration {
		return fault{}, false
	}
	return v, ok
}

// cut is true when a stream that has told of so many tokens is to break off behind an
// event, and then takes from the event what comes after the cut. The fault may have come
// when the stream was past it.
func (f *faults) cut(ev *engine.Event, told int) bool {
	v, on := f.get(faultCut)
	if !on || ev.Output < v.number {
		return false
	}
	ev.Output, ev.Done = max(v.number, told), false
	return true
}

// serve shows and sets the faults.
func (f *faults) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		var req struct {
			Fault string `json:"fault"`
		}
		err := json.NewDecoder(r.Body).Decode(&req)
		var on map[string]fault
		if err == nil {
			on, err = parseFaults(req.Fault)
		}
		if err != nil {
			e := badRequest("fault", "%v", err)
			writeJSON(w, e.status, e.openAI())
			return
		}
		f.set(on)
	}
	f.mu.Lock()
	list := make([]string, 0, len(f.on))
	for _, v := range f.on {
		list = append(list, v.text)
	}
	f.mu.Unlock()
	writeJSON(w, http.StatusOK, mustJSON(struct {
		Fault string `json:"fault"`
	}{strings.Join(list, ",")}))
}

// faultyListener resets new connections while the refuse fault is on.
type faultyListener struct {
	*net.TCPListener
	faults *faults
}

// Accept returns the next connection that is not refused.
func (l faultyListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptTCP()
		if err != nil || !l.faults.has(faultRefuse) {
			return c, err
		}
		// No linger turns the close into a reset, as a port without a listener gives.
		_ = c.SetLinger(0)
		_ = c.Close()
	}
}
