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
		see := func(broken, compared uint64) {
			r.plane.mu.Lock()
			r.plane.breaks = []proxy.PrefixBreaks{{
				Client: "claude-cli/2.1", Culprit: proxy.CulpritAttribution, Broken: broken, Compared: compared,
				Last: time.Now(), At: wire.Break{Section: wire.SectionSystem},
			}}
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
		for _, step := range []struct {
			broken, compared uint64
			alarms, shown    int
		}{
			{2, 2, 0, 0},   // too few
			{3, 100, 0, 0}, // a compaction now and then
			{30, 100, 1, 1},
			{40, 110, 1, 1}, // told once
		} {
			see(step.broken, step.compared)
			got, err := r.routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			shown := got.GetCard().GetPrefixBreaks()
			if alarms() != step.alarms || len(shown) != step.shown {
				t.Errorf("%d of %d broken: %d events, %d on the card; want %d and %d", step.broken, step.compared, alarms(), len(shown), step.alarms, step.shown)
			}
			if len(shown) > 0 && (!strings.Contains(shown[0].GetMessage(), "strip_attribution") || shown[0].Byte == nil || shown[0].GetCulprit() != lmwardenv1.PrefixCulprit_PREFIX_CULPRIT_ATTRIBUTION) {
				t.Errorf("shown %v", shown[0])
			}
		}
		time.Sleep(2 * time.Hour)
		got, err := r.routing.GetRouting(t.Context(), &lmwardenv1.GetRoutingRequest{Model: "m"})
		if err != nil || len(got.GetCard().GetPrefixBreaks()) != 0 {
			t.Errorf("two hours later: %v, %v", got.GetCard().GetPrefixBreaks(), err)
		}
	})
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
