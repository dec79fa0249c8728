package supervisor_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lmwarden/lmwarden/supervisor"
)

// tell posts to an engine of these tests.
func tell(t *testing.T, st supervisor.Status, path string) {
	t.Helper()
	resp, err := http.Post(st.URL+path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}

// slowly makes a box that finds a probe late soon, and hung late or never.
func slowly(t *testing.T, late, hung time.Duration) (*box, supervisor.Status) {
	t.Helper()
	b := newBox(t, func(o *supervisor.Options) {
		o.Timing.ProbeTimeout, o.Timing.HungAfter = late, hung
	})
	b.Apply([]supervisor.Spec{b.spec(first)})
	return b, b.untilState(first, supervisor.Ready)
}

// A busy engine answers its health probe late: it is suspect, and neither taken out of
// rotation nor ended, however often that happens.
func TestSlowHealthIsSuspectOnly(t *testing.T) {
	b, st := slowly(t, 500*time.Millisecond, 10*time.Minute)
	tell(t, st, "/slow")
	for range 2 {
		got := b.until("a late probe", func(s supervisor.Status) bool { return strings.Contains(s.Message, "has not answered for 500ms") })
		if got.State != supervisor.Suspect || got.Silent || got.PID != st.PID {
			t.Fatalf("late: %+v", got)
		}
		tell(t, st, "/quick")
		got = b.until("a late answer", func(s supervisor.Status) bool { return strings.Contains(s.Message, "to answer") })
		if got.State != supervisor.Suspect || got.Silent {
			t.Fatalf("answered late: %+v", got)
		}
	}
	tell(t, st, "/well")
	b.untilState(first, supervisor.Ready)
	if now, _ := b.StatusOf(first); now.PID != st.PID || now.Incarnation != st.Incarnation {
		t.Errorf("it became %+v", now)
	}
}

// One that never answers is taken out of rotation, and stays out when asked again.
func TestHungEngineIsSilent(t *testing.T) {
	// Far apart, so that late comes before hung on a busy machine too.
	b, st := slowly(t, 100*time.Millisecond, 1500*time.Millisecond)
	tell(t, st, "/slow")
	if got := b.untilState(first, supervisor.Suspect); got.Silent {
		t.Errorf("silent at once: %+v", got)
	}
	silent := func(s supervisor.Status) bool { return s.Silent }
	b.until("silence", silent)
	for range 2 {
		if got := b.until("the next look", func(supervisor.Status) bool { return true }); !silent(got) {
			t.Errorf("asked again, it came back: %+v", got)
		}
	}
	tell(t, st, "/well")
	if got := b.untilState(first, supervisor.Ready); got.Silent || got.PID != st.PID {
		t.Errorf("well again: %+v", got)
	}
}

// Refused probes take it out at once.
func TestRefusedProbeIsSilent(t *testing.T) {
	b := newBox(t)
	b.Apply([]supervisor.Spec{b.spec(first)})
	tell(t, b.untilState(first, supervisor.Ready), "/sick")
	if got := b.untilState(first, supervisor.Suspect); !got.Silent {
		t.Errorf("refused, it stays in rotation: %+v", got)
	}
}

// wedgeable makes a box that finds an engine wedged soon, and ends it after a while.
func wedgeable(t *testing.T, wedged time.Duration) (*box, supervisor.Status) {
	t.Helper()
	b := newBox(t, func(o *supervisor.Options) {
		o.Timing.StillAfter, o.Timing.StillTimeout, o.Timing.WedgedFor = 300*time.Millisecond, 300*time.Millisecond, wedged
	})
	b.Apply([]supervisor.Spec{b.spec(first)})
	return b, b.untilState(first, supervisor.Ready)
}

// An engine that is healthy and does nothing with what it has is taken out of rotation,
// and comes back each time it goes on.
func TestWedgedEngineMayGoOn(t *testing.T) {
	b, st := wedgeable(t, 10*time.Minute)
	for range 2 {
		tell(t, st, "/wedge")
		got := b.untilState(first, supervisor.Suspect)
		if !got.Silent || got.PID != st.PID || !strings.Contains(got.Message, "gave no token within 300ms") || !strings.Contains(got.Message, "within 10m0s") {
			t.Errorf("wedged: %+v", got)
		}
		tell(t, st, "/well")
		if got = b.untilState(first, supervisor.Ready); got.Silent || got.PID != st.PID {
			t.Errorf("it went on: %+v", got)
		}
	}
}

// One that does not go on is ended and started again.
func TestWedgedEngineIsReplaced(t *testing.T) {
	b, st := wedgeable(t, 500*time.Millisecond)
	tell(t, st, "/wedge")
	if got := b.untilState(first, supervisor.Suspect); !got.Silent || got.PID != st.PID {
		t.Errorf("wedged: %+v", got)
	}
	got := b.untilState(first, supervisor.Backoff)
	if !strings.Contains(got.Message, "hung for 500ms and more") || got.Restarts != 1 {
		t.Errorf("ended: %+v", got)
	}
	if got = b.untilState(first, supervisor.Ready); got.Incarnation != st.Incarnation+1 {
		t.Errorf("its successor: %+v", got)
	}
}
