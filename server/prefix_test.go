package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/wire"
	"github.com/lmwarden/lmwarden/supervisor"
)

func TestPrefixAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.create(t, "m", 1)
		see := func(b proxy.PrefixBreaks) {
			b.Client, b.Latest, b.At = "claude-cli/2.1", time.Now(), wire.Break{Section: wire.SectionSystem, Byte: 300, Block: 2}
			b.AllCompared, b.AllByCulprit = 10_100, 1000
			r.plane.mu.Lock()
			r.plane.breaks = []proxy.PrefixBreaks{b}
			r.plane.mu.Unlock()
			time.Sleep(2 * heartbeat)
		}
		alarms := func() (n int) {
			page, _ := r.events.Page("m", 0, 100)
			for _, e := range page {
				if e.Kind == "prefix_break" {
					n++
				}
			}
			return n
		}
		const attribution, clock = proxy.CulpritAttribution, proxy.CulpritClock
		for _, step := range []struct {
			broken, compared, by int
			culprit              proxy.Culprit
			alarms, shown        int
		}{
			{2, 2, 2, attribution, 0, 0},     // too few
			{3, 100, 3, attribution, 0, 0},   // a compaction now and then
			{19, 100, 19, attribution, 0, 0}, // less than a fifth
			{20, 100, 8, attribution, 1, 1},  // a fifth, for several reasons
			{19, 100, 8, attribution, 1, 0},
			{30, 100, 10, attribution, 1, 1}, // told once
			{30, 100, 11, clock, 2, 1},       // another reason
			{30, 100, 12, attribution, 2, 1}, // which was told
			{9, 100, 9, attribution, 2, 0},   // it is over
			{20, 100, 20, attribution, 3, 1}, // and begins again
		} {
			see(proxy.PrefixBreaks{Culprit: step.culprit, Broken: step.broken, Compared: step.compared, ByCulprit: step.by})
			got, err := r.routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			shown := got.GetCard().GetPrefixBreaks()
			if alarms() != step.alarms || len(shown) != step.shown {
				t.Errorf("%d of %d broken, %d by %d: %d events, %d on the card; want %d and %d", step.broken, step.compared, step.by, step.culprit, alarms(), len(shown), step.alarms, step.shown)
			}
			if len(shown) == 0 {
				continue
			}
			if b := shown[0]; b.GetBrokenTurns() != 1000 || b.GetComparedTurns() != 10_100 || b.GetByte() != 300 || b.GetBlock() != 2 || b.GetCulprit() != prefixCulprits[step.culprit] {
				t.Errorf("shown %v", b)
			}
		}
		time.Sleep(2 * time.Hour)
		got, err := r.routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: "m"})
		if err != nil || len(got.GetCard().GetPrefixBreaks()) != 0 {
			t.Errorf("two hours later: %v, %v", got.GetCard().GetPrefixBreaks(), err)
		}
	})
}

func TestPrefixMessageSaysHowManyBrokeForOneReason(t *testing.T) {
	b := proxy.PrefixBreaks{Client: "agent/1.0", Culprit: proxy.CulpritToolOrder, Compared: 100, Broken: 30, ByCulprit: 18, At: wire.Break{Section: wire.SectionTools, Index: 2}}
	for by, want := range map[int]string{
		18: "agent/1.0 sends prompts that do not continue the ones before: 30 of its last 100 turns broke, 18 of them for one reason, the last one at tool 3. No cache and no router can help: it lists the same tools in another order each time; sort them.",
		30: "agent/1.0 sends prompts that do not continue the ones before: 30 of its last 100 turns broke, the last one at tool 3. No cache and no router can help: it lists the same tools in another order each time; sort them.",
	} {
		if b.ByCulprit = by; prefixMessage(&b) != want {
			t.Errorf("got  %q\nwant %q", prefixMessage(&b), want)
		}
	}
}

func TestEveryCulpritHasAdvice(t *testing.T) {
	for c := proxy.CulpritUnknown; c <= proxy.CulpritHistory; c++ {
		b := &proxy.PrefixBreaks{Culprit: c, At: wire.Break{Section: wire.SectionMessage, Index: 2, Byte: 300, Block: 2}}
		got := prefixMessage(b)
		if prefixAdvice[c] == "" || !strings.Contains(got, "in message 3 at byte 300 (block 2)") {
			t.Errorf("culprit %d: %q", c, got)
		}
		if _, ok := prefixCulprits[c]; !ok {
			t.Errorf("culprit %d has no name in the API", c)
		}
	}
}

func TestStripAttributionReachesTheProxy(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	_, err := r.routing.UpdateRouting(t.Context(), &lmwardenv1.UpdateRoutingRequest{
		Model: "m", Settings: &lmwardenv1.RoutingSettings{StripAttribution: proto.Bool(true)},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"strip_attribution"}},
	})
	if err != nil || !r.plane.model(t, "m").StripAttribution {
		t.Errorf("the proxy was not told: %v", err)
	}
}

func TestIgnoreAttribution(t *testing.T) {
	for _, tt := range []struct {
		versions []string
		want     bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"0.17.1"}, false},
		{[]string{"0.18.0"}, true},
		{[]string{"0.32.0.dev3+g1"}, true},
		{[]string{"1.0.0"}, true},
		{[]string{"0.32.0", "0.9.2"}, false},
		{[]string{"unknown"}, false},
	} {
		var all []supervisor.Status
		for _, v := range tt.versions {
			var st supervisor.Status
			st.Engine.Version = v
			all = append(all, st)
		}
		if got := ignoreAttribution(all); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.versions, got, tt.want)
		}
	}
}
