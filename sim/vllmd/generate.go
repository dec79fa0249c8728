package vllmd

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// format is how one API writes an answer. All methods return what goes to the client.
type format interface {
	// whole is the body of an answer that is not streamed.
	whole(c *call) []byte
	// accepted begins a stream before the engine has looked at it.
	accepted(c *call) []byte
	// open comes with the first token of a stream.
	open(c *call) []byte
	// token carries what is new of a sequence.
	token(c *call, q *sequence, d delta) []byte
	// end comes after the last token.
	end(c *call) []byte
	// envelope is the body of an error, and failure an error inside a stream; nil breaks
	// the stream off.
	envelope(e *apiError) []byte
	failure(e *apiError) []byte
}

// refuseCall answers a request that does not run.
func refuseCall(w http.ResponseWriter, f format, err error) {
	e := asAPIError(err)
	if e.validation() {
		writeJSON(w, e.status, e.openAI())
		return
	}
	writeJSON(w, e.status, f.envelope(e))
}

// generate runs a call and writes its answer. A client that goes away ends the call.
func (s *server) generate(w http.ResponseWriter, r *http.Request, c *call, f format, rank int, rankErr error) {
	if id := r.Header.Get("X-Request-Id"); plainID(id) {
		c.id = id
	}
	if s.opt.trackLoad {
		s.busy.Add(1)
		defer s.busy.Add(-1)
	}
	if s.faults.has(fault500) {
		refuseCall(w, f, internal(errEngineDead))
		return
	}
	if rankErr != nil && !c.stream {
		refuseCall(w, f, rankErr)
		return
	}
	if !c.stream {
		s.generateWhole(w, r, c, f, rank)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	_, _ = w.Write(f.accepted(c))
	// Both fail only when the client has gone, which the context tells as well.
	_ = out.Flush()
	if err := rankErr; err != nil {
		_, _ = w.Write(f.failure(asAPIError(err)))
		return
	}
	s.generateStream(w, r, c, f, rank)
}

// plainID is true for a client's request id that can stand in an answer as it is.
func plainID(id string) bool {
	for _, r := range id {
		if r != '-' && r != '_' && r != '.' && (r > 'z' || class(byte(r)) != 0) {
			return false
		}
	}
	return id != ""
}

// flight is a call in the engines: a stream for each of its sequences.
type flight struct {
	streams []*stream
	news    chan struct{} // told when one of them has news
}

// takeOff hands a call's sequences to the engines. The caller closes the flight.
func (s *server) takeOff(r *http.Request, c *call, rank int) (*flight, error) {
	f := &flight{news: make(chan struct{}, 1)}
	for _, q := range c.seqs {
		core, landed := s.pick(r.Context(), rank)
		p := pending{prompt: len(q.prompt), output: q.request.Output, maxTokens: c.maxTokens, choices: c.choices, ended: q.answer.ended}
		st, err := core.submit(q.request, p, f.news)
		if err != nil {
			landed()
			f.close()
			return nil, err
		}
		st.landed = landed
		f.streams = append(f.streams, st)
	}
	return f, nil
}

func (f *flight) close() {
	for _, st := range f.streams {
		st.close()
	}
}

// wait returns when there is news, when the client has gone, or after the idle time, of
// which 0 is none. False means that nothing came in that time.
func (f *flight) wait(ctx context.Context, idle time.Duration) bool {
	var quiet <-chan time.Time
	if idle > 0 {
		timer := time.NewTimer(idle)
		defer timer.Stop()
		quiet = timer.C
	}
	select {
	case <-f.news:
	case <-ctx.Done():
	case <-quiet:
		return false
	}
	return true
}

// generateWhole waits for the last token and writes one body.
func (s *server) generateWhole(w http.ResponseWriter, r *http.Request, c *call, f format, rank int) {
	flown, err := s.takeOff(r, c, rank)
	if errors.Is(err, errDrained) {
		writeJSON(w, http.StatusOK, f.whole(c))
		return
	}
	if err != nil {
		refuseCall(w, f, internal(err))
		return
	}
	defer flown.close()
	for i, q := range c.seqs {
		for !q.latest.Done {
			if q.latest, err = flown.streams[i].state(); q.latest.Done {
				break
			}
			if err != nil {
				refuseCall(w, f, internal(err))
				return
			}
			if flown.wait(r.Context(), 0); r.Context().Err() != nil {
				return
			}
		}
	}
	writeJSON(w, http.StatusOK, f.whole(c))
}

// generateStream writes tokens as they come. A client that reads slowly gets several
// tokens in one event, as from vLLM.
func (s *server) generateStream(w http.ResponseWriter, r *http.Request, c *call, f format, rank int) {
	flown, err := s.takeOff(r, c, rank)
	if err != nil {
		if errors.Is(err, errDrained) {
			_, _ = w.Write(s.abortedStream(c, f)) // nobody to tell when the client has gone
			return
		}
		fail(w, f, err)
		return
	}
	defer flown.close()
	out := http.NewResponseController(w)
	idle := time.Duration(0)
	if _, comments := f.(commented); comments {
		idle = s.opt.keepAlive
	}
	buf, written := make([]byte, 0, 1024), time.Now()
	for begun, left := false, len(c.seqs); left > 0; {
		buf = buf[:0]
		for i, q := range c.seqs {
			ev, err := flown.streams[i].state()
			if ev.Output > q.latest.Output {
				cut := s.faults.cut(&ev, q.told)
				q.latest = ev
				if !begun {
					buf, begun = append(buf, f.open(c)...), true
				}
				if ev.Output > q.told {
					buf = append(buf, f.token(c, q, q.advance())...)
				}
				if cut {
					_, _ = w.Write(buf) // both fail only when the client has gone
					_ = out.Flush()
					panic(http.ErrAbortHandler) // breaks the connection, as a dying process does
				}
				if ev.Done {
					left--
				}
			} else if err != nil {
				fail(w, f, err)
				return
			}
		}
		if left == 0 {
			buf = append(buf, f.end(c)...)
		}
		if len(buf) == 0 {
			// What counts is what the client sees: not every token is shown.
			quiet := idle
			if idle > 0 {
				quiet = max(idle-time.Since(written), 1)
			}
			news := flown.wait(r.Context(), quiet)
			if r.Context().Err() != nil {
				return
			}
			if news {
				continue
			}
			buf = append(buf, ": keep-alive\n\n"...)
		}
		if idle > 0 {
			written = time.Now()
		}
		if _, err := w.Write(buf); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
}

// commented is a format whose idle streams may have comments.
type commented interface{ comments() }

// abortedStream is a stream whose call came too late for the engine: it ends without a
// token.
func (s *server) abortedStream(c *call, f format) []byte {
	b := f.open(c)
	for _, q := range c.seqs {
		b = append(b, f.token(c, q, delta{last: true})...)
	}
	return append(b, f.end(c)...)
}

// fail ends a stream with an error, or where its API has none for this, breaks it off.
func fail(w http.ResponseWriter, f format, err error) {
	told := f.failure(internal(err))
	if told == nil {
		panic(http.ErrAbortHandler)
	}
	// A failed write means that the client has gone; there is nobody to tell.
	_, _ = w.Write(told)
}
