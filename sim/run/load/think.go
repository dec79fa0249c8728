package load

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// Think is how long a client takes between an answer and its next turn. The zero
// value does not think at all.
type Think struct {
	kind     thinkKind
	from, to float64 // seconds; the mean in from where there is only one figure
}

type thinkKind uint8

const (
	thinkFixed thinkKind = iota
	thinkExp
	thinkUniform
	thinkMix
)

// The mixture of an agent that mostly works by itself and sometimes waits for a
// person: shares and times in seconds.
const (
	mixPerson     = 0.08 // of turns
	mixAgentLeast = 0.5
	mixAgentMean  = 3.0 // on top of the least
	mixHumanLeast = 30.0
	mixHumanMean  = 60.0 // on top of the least
)

// Fixed is always the same time.
func Fixed(d time.Duration) Think { return Think{kind: thinkFixed, from: d.Seconds()} }

// ParseThink reads a think time, all figures in seconds:
//
//	fixed:0.4      always the same
//	exp:5          exponential with that mean
//	uniform:1-20   evenly between the two
//	mix            92 % of 0.5 s and exponential of 3 s, 8 % of 30 s and exponential of 60 s
func ParseThink(s string) (Think, error) {
	if s == "mix" {
		return Think{kind: thinkMix}, nil
	}
	kind, figures, _ := strings.Cut(s, ":")
	bad := fmt.Errorf("the think time %q cannot be read; say fixed:0.4, exp:5, uniform:1-20 (seconds) or mix", s)
	switch kind {
	case "fixed", "exp":
		v, err := strconv.ParseFloat(figures, 64)
		if err != nil || !(v >= 0) || v > maxThink {
			return Think{}, bad
		}
		if kind == "exp" {
			return Think{kind: thinkExp, from: v}, nil
		}
		return Think{kind: thinkFixed, from: v}, nil
	case "uniform":
		low, high, ok := strings.Cut(figures, "-")
		from, err1 := strconv.ParseFloat(low, 64)
		to, err2 := strconv.ParseFloat(high, 64)
		if !ok || err1 != nil || err2 != nil || !(from >= 0) || !(to >= from) || to > maxThink {
			return Think{}, bad
		}
		return Think{kind: thinkUniform, from: from, to: to}, nil
	}
	return Think{}, bad
}

// maxThink bounds a figure of a think time, in seconds: a day.
const maxThink = 86400

// String returns what [ParseThink] reads.
func (t Think) String() string {
	figure := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	switch t.kind {
	case thinkExp:
		return "exp:" + figure(t.from)
	case thinkUniform:
		return "uniform:" + figure(t.from) + "-" + figure(t.to)
	case thinkMix:
		return "mix"
	default:
		return "fixed:" + figure(t.from)
	}
}

// MarshalText writes what [ParseThink] reads.
func (t Think) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText is [ParseThink].
func (t *Think) UnmarshalText(text []byte) error {
	parsed, err := ParseThink(string(text))
	if err == nil {
		*t = parsed
	}
	return err
}

// Mean is the expected time.
func (t Think) Mean() time.Duration {
	s := t.from
	switch t.kind {
	case thinkUniform:
		s = (t.from + t.to) / 2
	case thinkMix:
		s = (1-mixPerson)*(mixAgentLeast+mixAgentMean) + mixPerson*(mixHumanLeast+mixHumanMean)
	}
	return seconds(s)
}

// draw returns one time.
func (t Think) draw(rng *rand.Rand) time.Duration {
	s := t.from
	switch t.kind {
	case thinkExp:
		s = rng.ExpFloat64() * t.from
	case thinkUniform:
		s = t.from + rng.Float64()*(t.to-t.from)
	case thinkMix:
		if rng.Float64() < mixPerson {
			s = mixHumanLeast + rng.ExpFloat64()*mixHumanMean
		} else {
			s = mixAgentLeast + rng.ExpFloat64()*mixAgentMean
		}
	}
	return seconds(s)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
