package supervisor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	maxLogBytes  = 32 << 20 // of one file; a life keeps two of them
	keptLives    = 5        // lives whose logs are kept, the present one included
	followerRoom = 4096     // lines that a follower may lag behind
	batchLines   = 256      // lines that a reader gets at once

	reopenAfter = 10 * time.Second // without a file, until one is tried again
)

// logbook keeps the logs of one replica, one file per life
// (logs/MODEL/INDEX/INCARNATION.log, the older half as INCARNATION.log.1), and passes
// new lines on to followers. A line of a file is its time, a space and the text.
type logbook struct {
	dir string

	mu        sync.Mutex // guards what follows and the names of the files
	life      uint64     // that is written; 0 when none is
	last      uint64     // that was written, in this process
	file      *os.File
	size      int64
	lost      int       // lines that could not be written since the last one that could
	lostAll   int       // of this life
	tried     time.Time // when a file was last opened, or meant to be
	broken    error     // why lines were not kept; they still reached followers
	followers map[*follower]struct{}
}

// follower is a reader that waits for new lines.
type follower struct {
	lines   chan LogLine
	missed  int           // lines that found no room
	over    chan struct{} // closed when the life that it follows has ended
	onlyFor uint64        // life; 0 means all
}

func newLogbook(dir string) *logbook {
	return &logbook{dir: dir, followers: map[*follower]struct{}{}}
}

// begin opens the file of a new life and removes those of the oldest ones. When there
// is an error the life's lines reach its followers only, until the file can be opened.
func (b *logbook) begin(life uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.life, b.last, b.file, b.size, b.broken = life, life, nil, 0, nil
	b.lost, b.lostAll = 0, 0
	err := b.openLocked(time.Now())
	lives := b.livesLocked()
	for len(lives) > keptLives {
		// A file that stays is tried again with the next life.
		_ = os.Remove(b.path(lives[0]))
		_ = os.Remove(b.path(lives[0]) + ".1")
		lives = lives[1:]
	}
	return err
}

// openLocked opens the file of the present life. b.mu must be held.
func (b *logbook) openLocked(now time.Time) error {
	b.tried = now
	err := os.MkdirAll(b.dir, 0o700)
	if err == nil {
		b.file, err = openLog(b.path(b.life))
	}
	if err != nil {
		b.file, b.broken = nil, err
		return fmt.Errorf("the engine's log cannot be written: %w", err)
	}
	return nil
}

// openLog makes an empty file of lines.
func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
}

// end closes the file and lets go of those who follow this life only.
func (b *logbook) end() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for f := range b.followers {
		if f.onlyFor != 0 && f.onlyFor == b.life {
			close(f.over)
			delete(b.followers, f)
		}
	}
	b.life = 0
	err := b.broken
	if b.lostAll > 0 {
		err = fmt.Errorf("%d lines are missing: %w", b.lostAll, b.broken)
	}
	if b.file != nil {
		err = errors.Join(err, b.file.Close())
		b.file = nil
	}
	return err
}

// add writes one line. A disk that is full must not hold up the engine, whose pipe
// would fill: the line then reaches only the followers, and is counted.
func (b *logbook) add(at time.Time, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for f := range b.followers {
		f.offer(LogLine{Incarnation: b.life, Time: at, Text: text})
	}
	if b.life == 0 {
		return
	}
	if b.file == nil && at.Sub(b.tried) >= reopenAfter {
		_ = b.openLocked(at) // the error stays in b.broken
	}
	if b.size > maxLogBytes {
		b.rotateLocked()
	}
	if b.lost > 0 && b.writeLocked(at, fmt.Sprintf("[%d lines are missing, the log could not be written: %v]", b.lost, b.broken)) {
		b.lost = 0
	}
	if b.lost > 0 || !b.writeLocked(at, text) {
		b.lost++
		b.lostAll++
	}
}

// writeLocked writes a line whole, or not at all. b.mu must be held.
func (b *logbook) writeLocked(at time.Time, text string) bool {
	if b.file == nil {
		return false
	}
	n, err := b.file.WriteString(at.UTC().Format(time.RFC3339Nano) + " " + text + "\n")
	if err == nil {
		b.size += int64(n)
		return true
	}
	b.broken = err
	if info, err := b.file.Stat(); err == nil && n > 0 {
		_ = b.file.Truncate(info.Size() - int64(n)) // half a line stays when even that fails
	}
	return false
}

func (b *logbook) rotateLocked() {
	path := b.path(b.life)
	err := os.Rename(path, path+".1")
	if err == nil {
		var f *os.File
		if f, err = openLog(path); err == nil {
			_ = b.file.Close() // what it could not write was counted line by line
			b.file = f
		}
	}
	if err != nil {
		b.broken = fmt.Errorf("the engine's log cannot be rotated: %w", err)
	}
	b.size = 0
}

func (b *logbook) path(life uint64) string {
	return filepath.Join(b.dir, strconv.FormatUint(life, 10)+".log")
}

// exists says whether any log of the replica is there.
func (b *logbook) exists() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.livesLocked()) > 0
}

// livesLocked lists the lives that have a file, oldest first. b.mu must be held.
func (b *logbook) livesLocked() []uint64 {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return nil
	}
	var lives []uint64
	for _, e := range entries {
		name, isLog := strings.CutSuffix(e.Name(), ".log")
		if n, err := strconv.ParseUint(name, 10, 64); isLog && err == nil {
			lives = append(lives, n)
		}
	}
	slices.Sort(lives)
	return lives
}

// offer never blocks: a reader that is too slow loses lines, and is told.
func (f *follower) offer(l LogLine) {
	if f.onlyFor != 0 && f.onlyFor != l.Incarnation {
		return
	}
	// One place is kept for the notice.
	if len(f.lines) >= cap(f.lines)-1 {
		f.missed++
		return
	}
	if f.missed > 0 {
		f.lines <- LogLine{l.Incarnation, l.Time, fmt.Sprintf("[%d lines left out, this reader is too slow]", f.missed)}
		f.missed = 0
		if len(f.lines) >= cap(f.lines)-1 {
			f.missed++
			return
		}
	}
	f.lines <- l
}

// read answers a query.
func (b *logbook) read(ctx context.Context, q LogQuery, yield func([]LogLine) error) error {
	past, f, err := b.open(q)
	if err != nil {
		return err
	}
	if f != nil {
		defer b.unfollow(f)
	}
	tail, err := past.lines(q.Tail)
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(tail, batchLines) {
		if err := yield(batch); err != nil {
			return err
		}
	}
	if f == nil {
		return nil
	}
	return f.pass(ctx, yield)
}

// past is what a log held at one moment: open files, the older one first, with the
// bytes of them that count.
type past struct {
	life  uint64
	files []*os.File
	sizes []int64
}

// open notes the present end and begins to follow at the same moment, so that no line
// is lost or seen twice in between. Nothing is read here: the engine's next line waits
// for the lock.
func (b *logbook) open(q LogQuery) (past, *follower, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lives := b.livesLocked()
	p := past{life: q.Incarnation}
	switch {
	case p.life == 0 && len(lives) > 0:
		p.life = lives[len(lives)-1]
	case p.life != 0 && !slices.Contains(lives, p.life):
		return p, nil, fmt.Errorf("the log of run %d is not kept; those of %v are: %w", p.life, lives, ErrNoLog)
	}
	if q.Tail > 0 && p.life != 0 {
		for _, path := range []string{b.path(p.life) + ".1", b.path(p.life)} {
			if err := p.add(path); err != nil {
				p.close()
				return p, nil, err
			}
		}
	}
	if !q.Follow || (q.Incarnation != 0 && q.Incarnation != b.life) {
		return p, nil, nil
	}
	f := &follower{lines: make(chan LogLine, followerRoom), over: make(chan struct{}), onlyFor: q.Incarnation}
	b.followers[f] = struct{}{}
	return p, f, nil
}

// add opens a file, if it is there, and notes its size.
func (p *past) add(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the engine's log cannot be read: %w", err)
	}
	p.files = append(p.files, f)
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("the engine's log cannot be read: %w", err)
	}
	p.sizes = append(p.sizes, info.Size())
	return nil
}

func (p *past) close() {
	for _, f := range p.files {
		f.Close()
	}
}

// lines reads the last lines, at most so many, and closes the files.
func (p *past) lines(most int) ([]LogLine, error) {
	defer p.close()
	var lines []LogLine
	for i, f := range p.files {
		var err error
		if lines, err = readLog(io.LimitReader(f, p.sizes[i]), p.life, most, lines); err != nil {
			return nil, err
		}
	}
	return lines, nil
}

func (b *logbook) unfollow(f *follower) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.followers, f)
}

// readLog appends the lines of a file and keeps the last most of them.
func readLog(from io.Reader, life uint64, most int, lines []LogLine) ([]LogLine, error) {
	s := bufio.NewScanner(from)
	s.Buffer(nil, 4*maxLine)
	for s.Scan() {
		stamp, text, _ := strings.Cut(s.Text(), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			text = s.Text() // cut off in the middle by a crash
		}
		lines = append(lines, LogLine{Incarnation: life, Time: at, Text: text})
		if len(lines) >= 2*most {
			lines = slices.Delete(lines, 0, len(lines)-most)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("the engine's log cannot be read: %w", err)
	}
	return lines[max(0, len(lines)-most):], nil
}

// pass hands lines on as they come, several at once when there are.
func (f *follower) pass(ctx context.Context, yield func([]LogLine) error) error {
	for {
		var batch []LogLine
		over := false
		select {
		case <-ctx.Done():
			return nil
		case l := <-f.lines:
			batch = append(batch, l)
		case <-f.over:
			over = true
		}
		for more := true; more && len(batch) < batchLines; {
			select {
			case l := <-f.lines:
				batch = append(batch, l)
			default:
				more = false
			}
		}
		if len(batch) > 0 {
			if err := yield(batch); err != nil {
				return err
			}
		}
		if over && len(f.lines) == 0 {
			return nil
		}
	}
}
