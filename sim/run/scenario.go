package run

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/sim/run/load"
)

// Scenario is a load on the box that it is meant for.
type Scenario struct {
	Name     string
	About    string
	Preset   string
	Replicas int
	Load     load.Load
	Deaths   []Death // times counted from the end of the warm-up
	Warmup   time.Duration
	Length   time.Duration
}

// Scenarios returns all that have a name: each named load on its box, and what can
// happen to a box.
func Scenarios() []Scenario {
	var all []Scenario
	for _, l := range load.Named() {
		s := Scenario{Name: l.Name, About: l.About, Preset: "a4000/qwen3-4b", Replicas: 4, Load: l, Warmup: 3 * time.Minute, Length: 12 * time.Minute}
		if l.Name == load.Farm || l.Name == load.FarmUnequal {
			// Its conversations take a quarter of an hour and more.
			s.Preset, s.Replicas, s.Warmup, s.Length = "5090/27b", 7, 15*time.Minute, time.Hour
		}
		all = append(all, s)
	}
	death := all[0]
	death.Name, death.About = "death", "seed at 16 sessions; replica 1 dies in the middle of the 15 minutes"
	death.Load.Sessions = 16
	death.Deaths = []Death{{Replica: 1, At: 4*time.Minute + 30*time.Second}}
	return append(all, death)
}

// FindScenario returns a scenario by its name, or an error that lists the names.
func FindScenario(name string) (Scenario, error) {
	var names []string
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("there is no load %q; choose one of %s", name, strings.Join(names, ", "))
}

// Config is the scenario as [DefaultConfig] runs it, with the given policy.
func (s Scenario) Config(p Policy) Config {
	c := DefaultConfig(p, s.Load.Sessions)
	c.Preset, c.Replicas, c.Load = s.Preset, s.Replicas, s.Load
	c.Warmup, c.Length = s.Warmup, s.Length
	c.Deaths = After(c.Warmup, s.Deaths)
	return c
}

// After moves deaths by the warm-up, from times in the measured part to times in the
// run.
func After(warmup time.Duration, deaths []Death) []Death {
	var moved []Death
	for _, d := range deaths {
		d.At += warmup
		if d.Back > 0 {
			d.Back += warmup
		}
		moved = append(moved, d)
	}
	return moved
}

// ParseDeath reads the end of a replica: the time after the warm-up and the replica's
// index, and the time after which it is back, if it comes back: 6m:1 or 6m:1:30s.
func ParseDeath(s string) (Death, error) {
	bad := fmt.Errorf("the death %q cannot be read; say 6m:1 (replica 1, counted from 0, dies after 6 minutes) or 6m:1:30s (and is back after 30 seconds more)", s)
	parts := strings.Split(s, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return Death{}, bad
	}
	at, err := time.ParseDuration(parts[0])
	if err != nil || at < 0 {
		return Death{}, bad
	}
	d := Death{At: at}
	if d.Replica, err = strconv.Atoi(parts[1]); err != nil {
		return Death{}, bad
	}
	if len(parts) == 3 {
		gone, err := time.ParseDuration(parts[2])
		if err != nil || gone <= 0 {
			return Death{}, bad
		}
		d.Back = at + gone
	}
	return d, nil
}
