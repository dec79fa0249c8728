package supervisor

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/lmwarden/lmwarden/supervisor/vllm"
)

const (
	maxLine       = 16 << 10 // bytes of a log line, the rest is cut
	linesASecond  = 2000     // beyond which lines are counted, not kept
	lastLinesKept = 5
)

// pump reads what an engine writes, line by line, to the logbook, and keeps what its
// lines say: the phase of the start, sizes, the cause of a failure. It runs in a
// goroutine of its own until the last process that holds the pipe has ended.
type pump struct {
	book   *logbook
	redact *redactor
	moved  chan struct{} // a new phase; room for one
	done   chan struct{} // closed when the pipe has ended

	mu       sync.Mutex // guards what follows
	phase    string
	at       time.Time // of the last line
	last     []string  // the newest at the end
	facts    vllm.Figures
	diagnose vllm.Diagnosis
}

// heard is what a pump knows at one moment.
type heard struct {
	phase, line string
	at          time.Time
	last        []string
	facts       vllm.Figures
	cause       vllm.Cause
	failed      bool // a cause was found
}

func newPump(book *logbook, redact *redactor, now time.Time) *pump {
	return &pump{book: book, redact: redact, moved: make(chan struct{}, 1), done: make(chan struct{}), at: now}
}

func (p *pump) heard() heard {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := heard{phase: p.phase, at: p.at, last: append([]string(nil), p.last...), facts: p.facts}
	if len(p.last) > 0 {
		h.line = p.last[len(p.last)-1]
	}
	h.cause, h.failed = p.diagnose.Cause()
	return h
}

// run reads until the pipe ends. A read error is the end as well: nothing more comes.
func (p *pump) run(pipe io.ReadCloser) {
	defer close(p.done)
	defer pipe.Close()
	lines := bufio.NewScanner(pipe)
	lines.Buffer(make([]byte, 0, maxLine), maxLine+utf8.UTFMax)
	lines.Split(splitLines)
	var second time.Time
	count, left := 0, 0
	for lines.Scan() {
		text := strings.TrimRight(lines.Text(), " \t")
		if text == "" {
			continue
		}
		now := time.Now()
		if now.Sub(second) >= time.Second {
			p.admit(left, now)
			second, count, left = now, 0, 0
		}
		// What a flood says is listened to, but not kept.
		text = p.redact.clean(strings.ToValidUTF8(text, "�"))
		p.listen(text, now)
		if count++; count > linesASecond {
			left++
			continue
		}
		p.book.add(now, text)
	}
	p.admit(left, time.Now())
}

// admit notes in the log how many lines were left out.
func (p *pump) admit(left int, now time.Time) {
	if left > 0 {
		p.book.add(now, fmt.Sprintf("[%d lines left out, the engine wrote more than %d in a second]", left, linesASecond))
	}
}

func (p *pump) listen(line string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = now
	p.last = append(p.last, line)
	if len(p.last) > lastLinesKept {
		p.last = p.last[1:]
	}
	p.diagnose.Add(line)
	vllm.Facts(line, &p.facts)
	if phase, ok := vllm.Phase(line); ok && phase != p.phase {
		p.phase = phase
		select {
		case p.moved <- struct{}{}:
		default: // it is due to look already
		}
	}
}

// splitLines ends a line at \n or \r, which progress bars use, and cuts long ones.
func splitLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 && i <= maxLine {
		return i + 1, data[:i], nil
	}
	if len(data) >= maxLine {
		return maxLine, data[:maxLine], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// redactor takes secrets out of lines and command lines.
type redactor struct{ values *strings.Replacer }

var (
	secretName = regexp.MustCompile(`(?i)token|secret|passw|credential|api_?key|access_?key|private`)
	secretText = regexp.MustCompile(`\bhf_[A-Za-z0-9]{16,}|\bsk-[A-Za-z0-9_-]{16,}|(?i:\bbearer )[A-Za-z0-9._~+/=-]{8,}`)
)

const redacted = "[secret]"

// newRedactor learns the values of the variables whose names say that they are secret.
func newRedactor(env []string) *redactor {
	var pairs []string
	for _, v := range env {
		name, value, _ := strings.Cut(v, "=")
		// Our own token is no secret, a number is none (MAX_TOKENS=100000), and short
		// values would blot out half the log.
		number := strings.Trim(value, "0123456789.") == ""
		if name != tokenVar && len(value) >= 6 && !number && secretName.MatchString(name) {
			pairs = append(pairs, value, redacted)
		}
	}
	return &redactor{strings.NewReplacer(pairs...)}
}

func (r *redactor) clean(s string) string {
	return secretText.ReplaceAllString(r.values.Replace(s), redacted)
}

// command cleans a command line, which may also name a secret in the argument before.
func (r *redactor) command(args []string) []string {
	clean := make([]string, len(args))
	for i, a := range args {
		clean[i] = r.clean(a)
		if i > 0 && strings.HasPrefix(args[i-1], "--") && secretFlag(args[i-1]) {
			clean[i] = redacted
		}
	}
	return clean
}

func secretFlag(flag string) bool { return flag == "--hf-token" || strings.HasSuffix(flag, "-api-key") }
