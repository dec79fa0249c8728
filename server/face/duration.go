package face

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// units of a span of time as people write them.
var units = map[string]time.Duration{
	"ms": time.Millisecond,
	"s":  time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
}

var errDuration = errors.New("not a span of time; write it as 90s, 10 min or 4h")

// ParseDuration reads a span of time such as "4h", "1 h 30 min" or "10 min"; a number
// alone counts seconds. Negative spans are refused.
func ParseDuration(text string) (time.Duration, error) {
	rest := strings.ToLower(strings.TrimSpace(text))
	if n, err := strconv.ParseFloat(rest, 64); err == nil {
		return scale(n, time.Second)
	}
	var total time.Duration
	for rest != "" {
		end := strings.IndexFunc(rest, func(r rune) bool { return r != '.' && (r < '0' || r > '9') })
		if end <= 0 {
			return 0, errDuration
		}
		n, err := strconv.ParseFloat(rest[:end], 64)
		if err != nil {
			return 0, errDuration
		}
		rest = strings.TrimLeft(rest[end:], " ")
		end = strings.IndexFunc(rest, func(r rune) bool { return r < 'a' || r > 'z' })
		if end < 0 {
			end = len(rest)
		}
		unit, ok := units[rest[:end]]
		if !ok {
			return 0, errDuration
		}
		d, err := scale(n, unit)
		if err != nil || d > math.MaxInt64-total {
			return 0, errDuration
		}
		total += d
		rest = strings.TrimLeft(rest[end:], " ")
	}
	if total == 0 && !strings.ContainsAny(text, "0") {
		return 0, errDuration
	}
	return total, nil
}

func scale(n float64, unit time.Duration) (time.Duration, error) {
	d := n * float64(unit)
	if math.IsNaN(d) || d < 0 || d >= math.MaxInt64 {
		return 0, errDuration
	}
	return time.Duration(math.Round(d)), nil
}

// FormatDuration writes a span of time in its largest units, "4h", "1h30m", "90ms",
// so that [ParseDuration] reads it back.
func FormatDuration(d time.Duration) string {
	if d <= 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}} {
		if n := d / u.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10) + u.name)
			d -= n * u.size
		}
	}
	switch {
	case d == 0:
	case d < time.Second && d%time.Millisecond == 0:
		b.WriteString(strconv.FormatInt(d.Milliseconds(), 10) + "ms")
	default:
		b.WriteString(strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s")
	}
	return b.String()
}
