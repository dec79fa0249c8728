package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

func TestPolicy(t *testing.T) {
	start := time.Unix(1e9, 0)
	died := ending{exit: 1}
	crashed := ending{wasReady: true, readyFor: time.Second}
	lasted := ending{wasReady: true, readyFor: time.Hour}
	wrong := ending{exit: 2, cause: vllm.Cause{Kind: vllm.Configuration}}
	taken := ending{exit: 1, cause: vllm.Cause{Kind: vllm.PortTaken}, portLost: true}
	other := ending{exit: 1, cause: vllm.Cause{Kind: vllm.PortTaken}}
	laterWrong := ending{wasReady: true, cause: vllm.Cause{Kind: vllm.Configuration}}
	for _, c := range []struct {
		name    string
		endings []ending
		every   time.Duration // between two of them
		last    verdict
	}{
		{"first failure waits least", []ending{died}, 0, verdict{true, time.Second, 1}},
		{"waits double", []ending{died, died}, 0, verdict{true, 2 * time.Second, 2}},
		{"third failed start is the last", []ending{died, died, died}, 0, verdict{false, 0, 3}},
		{"a ready engine ends the row", []ending{died, died, crashed, died}, 0, verdict{true, 8 * time.Second, 1}},
		{"wrong settings are not tried again", []ending{wrong}, 0, verdict{false, 0, 1}},
		{"settings that worked are not to blame", []ending{laterWrong}, 0, verdict{true, time.Second, 1}},
		{"crashes have a budget", slices.Repeat([]ending{crashed}, 6), time.Minute, verdict{false, 0, 6}},
		{"crashes of long ago do not count", slices.Repeat([]ending{crashed}, 6), 20 * time.Minute, verdict{true, 32 * time.Second, 3}},
		{"a full disk is waited for, and nothing is counted", slices.Repeat([]ending{{exit: -1, full: true}}, 50), 0, verdict{true, 30 * time.Second, 0}},
		{"a full disk forgives nothing", []ending{died, died, {full: true}, died}, 0, verdict{false, 0, 3}},
		{"a taken port is no failed start", append(slices.Repeat([]ending{taken}, portBudget-1), died), 0, verdict{true, time.Second, 1}},
		{"nor is there another port for ever", slices.Repeat([]ending{taken}, portBudget), 0, verdict{false, time.Second, portBudget}},
		{"another address that is taken is a failed start", slices.Repeat([]ending{other}, 3), 0, verdict{false, 0, 3}},
		{"an engine that got ready found its port", slices.Concat(slices.Repeat([]ending{taken}, portBudget-1), []ending{crashed, taken}), 0, verdict{true, time.Second, 1}},
		{"a long life forgives", append(slices.Repeat([]ending{crashed}, 5), lasted), 0, verdict{true, time.Second, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := policy{t: Timing{}.withDefaults()}
			var v verdict
			for i, e := range c.endings {
				v = p.ended(e, start.Add(time.Duration(i)*c.every))
			}
			if v != c.last {
				t.Errorf("got %+v, want %+v", v, c.last)
			}
		})
	}
}

func TestBackoffIsBounded(t *testing.T) {
	p := policy{t: Timing{StartBudget: 100}.withDefaults()}
	var last verdict
	for range 20 {
		last = p.ended(ending{}, time.Now())
	}
	if last.wait != 5*time.Minute {
		t.Errorf("waits %s, want 5m", last.wait)
	}
}

func TestPortsAreNeverShared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]int{18100, 28450, 28500}).Draw(t, "base")
		p := newPorts(base)
		held := map[ReplicaID]lease{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			id := ReplicaID{"m", rapid.IntRange(0, 9).Draw(t, "replica")}
			if _, has := held[id]; has {
				p.give(id)
				delete(held, id)
				continue
			}
			l, err := p.take(id, 0)
			if err != nil {
				t.Fatal(err)
			}
			for other, o := range held {
				if o.port == l.port || o.internal == l.internal {
					t.Fatalf("%v and %v share %+v", id, other, l)
				}
			}
			if l.internal < base+portCount || l.internal <= torchLast && l.internal+internalStride > torchFirst {
				t.Fatalf("internal ports at %d", l.internal)
			}
			held[id] = l
		}
	})
}

// Behind a port that somebody else had the search goes on, and around.
func TestPortBehindATakenOne(t *testing.T) {
	id := ReplicaID{"m", 0}
	for avoid, want := range map[int]int{0: 28450, 28450: 28451, 28470: 28471, 28450 + portCount - 1: 28450, 99: 28450} {
		p := newPorts(28450)
		l, err := p.take(id, avoid)
		if err != nil || l.port < want || l.port > want+20 { // those that others have are left out
			t.Errorf("behind %d: got %d, %v, want %d", avoid, l.port, err, want)
		}
	}
}

func TestLogRotatesAndForgets(t *testing.T) {
	b := newLogbook(t.TempDir())
	for life := uint64(1); life <= keptLives+2; life++ {
		if err := b.begin(life); err != nil {
			t.Fatal(err)
		}
		b.add(time.Now(), "old")
		b.size = maxLogBytes + 1
		b.add(time.Now(), "new")
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(filepath.Join(b.dir, "*"))
	if len(files) != 2*keptLives {
		t.Errorf("kept %d files: %v", len(files), files)
	}
	lines, err := tailOf(b, 10)
	if err != nil || len(lines) != 2 || lines[0].Text != "old" || lines[1].Text != "new" || lines[1].Incarnation != keptLives+2 {
		t.Errorf("read %+v, %v", lines, err)
	}
}

// tailOf reads the end of a log.
func tailOf(b *logbook, most int) (lines []LogLine, err error) {
	err = b.read(context.Background(), LogQuery{Tail: most}, func(some []LogLine) error {
		lines = append(lines, some...)
		return nil
	})
	return lines, err
}

// A reader that stands still over a long log must not hold up the engine's lines, and
// sees nothing twice.
func TestReadingALogDoesNotBlockIt(t *testing.T) {
	b := newLogbook(t.TempDir())
	if err := b.begin(1); err != nil {
		t.Fatal(err)
	}
	b.add(time.Now(), "before")
	p, f, err := b.open(LogQuery{Tail: 10, Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.unfollow(f)
	b.add(time.Now(), "after") // deadlocks, were the lock held until the tail is read
	lines, err := p.lines(10)
	if err != nil || len(lines) != 1 || lines[0].Text != "before" || (<-f.lines).Text != "after" {
		t.Errorf("%+v, %v", lines, err)
	}
	if err := b.end(); err != nil {
		t.Error(err)
	}
}

// A disk that is full must not hold up the engine, and readers still see its lines.
func TestLogSurvivesABrokenFile(t *testing.T) {
	b := newLogbook(t.TempDir())
	if err := b.begin(1); err != nil {
		t.Fatal(err)
	}
	_, f, err := b.open(LogQuery{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	b.file.Close()
	b.add(time.Now(), "still here")
	if l := <-f.lines; l.Text != "still here" {
		t.Errorf("got %+v", l)
	}
	if err := b.end(); err == nil {
		t.Error("the loss is not reported")
	}
}

func TestSlowFollowerIsTold(t *testing.T) {
	f := &follower{lines: make(chan LogLine, 4)}
	for i := range 6 {
		f.offer(LogLine{Text: fmt.Sprint(i)})
	}
	for range 3 {
		<-f.lines
	}
	f.offer(LogLine{Text: "next"})
	if notice, next := <-f.lines, <-f.lines; !strings.Contains(notice.Text, "3 lines left out") || next.Text != "next" {
		t.Errorf("got %q, %q", notice.Text, next.Text)
	}
}

// The clock stands still while the lines are read, so that they come within one second
// however busy the machine is.
func TestPumpCutsAndLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLogbook(t.TempDir())
		if err := b.begin(1); err != nil {
			t.Fatal(err)
		}
		p := newPump(b, newRedactor(nil), time.Now())
		flood := strings.NewReader(strings.Repeat("x", maxLine+5) + "\n" + strings.Repeat("line\n", 3*linesASecond))
		p.run(io.NopCloser(io.MultiReader(flood, aSecondLater{}, strings.NewReader("ValueError: the end"))))
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
		lines, err := tailOf(b, 1e6)
		if err != nil {
			t.Fatal(err)
		}
		if len(lines) != linesASecond+2 || len(lines[0].Text) != maxLine || len(lines[1].Text) != 5 {
			t.Fatalf("%d lines were kept, the first cut to %d and %d", len(lines), len(lines[0].Text), len(lines[1].Text))
		}
		if notice := lines[linesASecond].Text; !strings.HasPrefix(notice, fmt.Sprintf("[%d lines left out", 2*linesASecond+2)) || lines[linesASecond+1].Text != "ValueError: the end" {
			t.Errorf("after the first second came %q, %q", notice, lines[linesASecond+1].Text)
		}
		if h := p.heard(); h.cause.Sentence != "ValueError: the end." || h.line != "ValueError: the end" {
			t.Errorf("heard %+v", h)
		}
	})
}

// What an engine floods the log with to its very end is counted at that end.
func TestPumpCountsWhatItLeftOutLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLogbook(t.TempDir())
		if err := b.begin(1); err != nil {
			t.Fatal(err)
		}
		newPump(b, newRedactor(nil), time.Now()).run(io.NopCloser(strings.NewReader(strings.Repeat("line\n", 3*linesASecond))))
		if err := b.end(); err != nil {
			t.Fatal(err)
		}
		lines, err := tailOf(b, 1e6)
		if err != nil || len(lines) != linesASecond+1 || !strings.HasPrefix(lines[linesASecond].Text, fmt.Sprintf("[%d lines left out", 2*linesASecond)) {
			t.Errorf("%d lines were kept, the last is %q, %v", len(lines), lines[len(lines)-1].Text, err)
		}
	})
}

// aSecondLater is a piece of a stream that holds nothing and takes a second.
type aSecondLater struct{}

func (aSecondLater) Read([]byte) (int, error) {
	time.Sleep(time.Second) // of the bubble's clock
	return 0, io.EOF
}

func TestRedactor(t *testing.T) {
	r := newRedactor([]string{"MY_API_KEY=abcdef123", "PATH=/usr/bin", "SHORT_TOKEN=abc", "MAX_TOKENS=100000", tokenVar + "=m/0/1/RANDOM"})
	for in, want := range map[string]string{
		"key abcdef123 in /usr/bin":           "key [secret] in /usr/bin",
		"abc m/0/1/RANDOM":                    "abc m/0/1/RANDOM",
		"100000 tokens":                       "100000 tokens",
		"hf_ABCDEFGHIJKLMNOPQRST":             "[secret]",
		"Authorization: Bearer abcdefgh12345": "Authorization: [secret]",
	} {
		if got := r.clean(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
	got := r.command([]string{"vllm", "--hf-token", "zzz", "--port", "1"})
	if !slices.Equal(got, []string{"vllm", "--hf-token", "[secret]", "--port", "1"}) {
		t.Errorf("command %q", got)
	}
}

func TestDirName(t *testing.T) {
	seen := map[string]string{}
	for _, model := range []string{"a", "a/b", "a%2Fb", "..", ".", "", "...", "a b", "ä"} {
		name := dirName(model)
		if other, twice := seen[name]; twice {
			t.Errorf("%q and %q are both %q", model, other, name)
		}
		seen[name] = model
		if model != "" && (name != filepath.Base(name) || name == "." || name == "..") {
			t.Errorf("%q becomes %q", model, name)
		}
	}
}

func TestDamagedRunFileIsNotOverwritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run", "m", "0.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Options{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "delete the file") {
		t.Errorf("error: %v", err)
	}
	if text, _ := os.ReadFile(file); string(text) != "{" {
		t.Errorf("the file became %q", text)
	}
}

// Nothing runs any more that a file of another boot names, so it holds up nobody.
func TestDamagedRunFileOfAnotherBootIsMovedAside(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run", "m", "0.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	long := time.Now().AddDate(-5, 0, 0)
	if err := os.Chtimes(file, long, long); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := s.run.next(ReplicaID{"m", 0}); err != nil || rec.Incarnation != 1 {
		t.Errorf("the next life is %d, %v", rec.Incarnation, err)
	}
	if _, err := os.Stat(file + ".damaged"); err != nil {
		t.Error(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// Asking for logs of replicas that never were must not fill the memory.
func TestUnknownLogsLeaveNothingBehind(t *testing.T) {
	s, err := New(Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := s.Logs(t.Context(), ReplicaID{"m", i}, LogQuery{}, nil); !errors.Is(err, ErrNoLog) {
			t.Fatal(err)
		}
	}
	if len(s.books) != 0 {
		t.Errorf("%d logbooks are kept", len(s.books))
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// A number that was given to a stranger must not be killed.
func TestFamilyKnowsStrangers(t *testing.T) {
	me, err := readProcess(os.Getppid())
	if err != nil {
		t.Fatal(err)
	}
	f := newFamily(me.pid, me.start+1, tokenVar+"=nobody")
	members, err := f.members()
	if err != nil || len(members) != 0 {
		t.Errorf("members %+v, %v", members, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"data directory":                {},
		"engine command is empty":       {DataDir: t.TempDir(), Command: []string{""}},
		"choose one from 1024 to 40000": {DataDir: t.TempDir(), PortBase: 80},
		"this user may write to":        {DataDir: file},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

// nobody is an engine that takes requests and never answers.
type nobody struct{}

func (nobody) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A probe that has no answer is told as late while it may still come, and only once: an
// engine that hung stays hung until it answers, also for who looks so late that both times
// are over.
func TestHungProbeIsLateOnce(t *testing.T) {
	for name, timing := range map[string]Timing{
		"in time":  {ProbeTimeout: time.Second, HungAfter: 10 * time.Second},
		"too late": {ProbeTimeout: 10 * time.Second, HungAfter: time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &prober{client: &http.Client{Transport: nobody{}}, base: "http://engine", timing: timing, ready: true}
			told := 0
			for range 3 {
				late, err := p.health(t.Context(), func(answer) { told++ })
				if late || !isTimeout(err) || !p.hung {
					t.Errorf("%s: late %v, %v, hung %v", name, late, err, p.hung)
				}
				p.timing.ProbeTimeout = time.Second // from now on it is looked at in time
				p.timing.HungAfter = 10 * time.Second
			}
			if want := map[string]int{"in time": 1, "too late": 0}[name]; told != want {
				t.Errorf("%s: told %d times that it is late, want %d", name, told, want)
			}
		})
	}
}

// Only refusals without anything between them make an engine dead: a late answer, or
// none, tells that somebody is there.
func TestDeadMeansRefusedWithoutABreak(t *testing.T) {
	refused := answer{ready: true, refused: true, health: io.EOF}
	timeout := answer{ready: true, health: os.ErrDeadlineExceeded}
	late := answer{ready: true, late: true, health: os.ErrDeadlineExceeded}
	for _, c := range []struct {
		name    string
		between []answer
		dead    bool
	}{
		{"refused throughout", []answer{refused}, true},
		{"a timeout between", []answer{timeout}, false},
		{"a late one between", []answer{late}, false},
		{"a good one between", []answer{{ready: true}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Supervisor{opts: Options{Timing: Timing{}.withDefaults()}}
				r := &replica{sup: s, log: zerolog.Nop()}
				r.status.Store(&Status{State: Ready})
				l := &life{readyAt: time.Now(), family: &family{}}
				r.judge(l, refused)
				time.Sleep(10 * time.Second)
				for _, a := range c.between {
					r.judge(l, a)
				}
				if dead := r.judge(l, refused); (dead != "") != c.dead {
					t.Errorf("dead: %q, want %v", dead, c.dead)
				}
			})
		})
	}
}
