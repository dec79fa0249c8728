package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

// enumWord is the word of an enum value: REPLICA_STATE_READY is "ready".
func enumWord(e protoreflect.Enum) string {
	value := e.Descriptor().Values().ByNumber(e.Number())
	if value == nil {
		return strconv.Itoa(int(e.Number())) // of a newer daemon
	}
	return valueWord(value)
}

// valueWord is the name of an enum value without what all values of its enum begin
// with, which is the zero value's name without UNSPECIFIED.
func valueWord(value protoreflect.EnumValueDescriptor) string {
	word := string(value.Name())
	if enum, ok := value.Parent().(protoreflect.EnumDescriptor); ok {
		zero := string(enum.Values().ByNumber(0).Name())
		word = strings.TrimPrefix(word, strings.TrimSuffix(zero, "UNSPECIFIED"))
	}
	if word == "UNSPECIFIED" {
		return "unknown"
	}
	return strings.ReplaceAll(strings.ToLower(word), "_", " ")
}

// stateCell colours the state of a model or a replica.
func stateCell(e protoreflect.Enum) cell {
	word := enumWord(e)
	switch word {
	case "ready":
		return cell{word, green}
	case "failed", "broken":
		return cell{word, red}
	case "degraded", "backoff", "suspect", "starting", "draining", "stopping":
		return cell{word, yellow}
	default:
		return cell{word, faint}
	}
}

// tokens shortens a number of tokens: 950, 46.1k, 1.2M.
func tokens[N ~uint64 | ~uint32 | ~int](n N) string {
	switch v := float64(n); {
	case v < 10_000:
		return strconv.FormatUint(uint64(n), 10)
	case v < 999_950:
		return fmt.Sprintf("%.1fk", v/1e3)
	default:
		return fmt.Sprintf("%.1fM", v/1e6)
	}
}

// optional prints a value that may be absent.
func optional[T any](v *T, format func(T) string) string {
	if v == nil {
		return notReported
	}
	return format(*v)
}

// share prints a share of 0 to 1 in percent.
func share(v float64) string { return fmt.Sprintf("%.1f%%", 100*v) }

// count prints a number of things.
func count[N ~uint32 | ~uint64 | ~int | ~int32](n N) string { return fmt.Sprint(n) }

// secondsText prints seconds with two decimals.
func secondsText(s float64) string { return fmt.Sprintf("%.2f s", s) }

// took prints a duration of a request, or nothing.
func took(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return secondsText(d.AsDuration().Seconds())
}

// age says how long ago something was, in its largest unit or two: 42s, 3m, 2h 5m.
func age(t *timestamppb.Timestamp, now time.Time) string {
	if t == nil {
		return ""
	}
	return span(now.Sub(t.AsTime()))
}

// span prints a length of time in its largest unit or two.
func span(d time.Duration) string {
	d = max(0, d).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// clock prints the local time of day.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(time.TimeOnly)
}

// moment prints a local time, with its date when that is not today's.
func moment(t *timestamppb.Timestamp, now time.Time) string {
	at := t.AsTime().Local()
	if at.Format(time.DateOnly) == now.Local().Format(time.DateOnly) {
		return at.Format(time.TimeOnly)
	}
	return at.Format(time.DateTime)
}

// gib prints bytes in GiB.
func gib(n uint64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// index prints an optional index of a replica.
func index(i *uint32) string {
	if i == nil {
		return ""
	}
	return strconv.FormatUint(uint64(*i), 10)
}

// fitCell colours how well live conversations fit the cache.
func fitCell(f lmwardenv1.Fit) cell {
	switch f {
	case lmwardenv1.Fit_FIT_FITS:
		return cell{"fits", green}
	case lmwardenv1.Fit_FIT_EDGE:
		return cell{"edge", yellow}
	case lmwardenv1.Fit_FIT_THRASH:
		return cell{"thrash", red}
	default:
		return cell{notReported, faint}
	}
}

// plural chooses the word for a number.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
