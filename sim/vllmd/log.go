package vllmd

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// logger writes lines as vLLM does: to a writer that several processes share, each
// line in one piece.
type logger struct {
	mu     sync.Mutex
	out    io.Writer
	prefix string // "(APIServer pid=12) "
}

// newLogger writes for a process with that title.
func newLogger(out io.Writer, title string, pid int) *logger {
	return &logger{out: out, prefix: fmt.Sprintf("(%s pid=%d) ", title, pid)}
}

// plain writes a line without a prefix, as uvicorn does.
func (l *logger) plain(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Nobody can be told that the log is gone.
	_, _ = io.WriteString(l.out, line+"\n")
}

// line writes a line of vLLM's own.
func (l *logger) line(level, where, format string, args ...any) {
	l.plain(l.prefix + level + " " + time.Now().Format("01-02 15:04:05") + " [" + where + "] " + fmt.Sprintf(format, args...))
}

func (l *logger) info(where, format string, args ...any) { l.line("INFO", where, format, args...) }

func (l *logger) warn(where, format string, args ...any) { l.line("WARNING", where, format, args...) }

func (l *logger) error(where, format string, args ...any) { l.line("ERROR", where, format, args...) }

// grouped writes n with a comma between thousands.
func grouped(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
