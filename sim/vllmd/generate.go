package vllmd

import "net/http"

// format is how one API writes an answer. All methods return what goes to the client.
type format interface {
	// whole is the body of an answer that is not streamed.
	whole(c *call) []byte
	// accepted begins a stream before the engine has looked at it.
	accepted(c *call) []byte
	// open comes with the first token of a stream.
	open(c *call) []byte
	// token carries the text of the tokens up to the n-th, which may be the last.
	token(c *call, text string, n int, last bool) []byte
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

// generateWhole waits for the last token and writes one body.
func (s *server) generateWhole(w http.ResponseWriter, r *http.Request, c *call, f format, rank int) {
	flow, err := s.pick(rank).submit(c.request, c.maxTokens, c.answer.ended)
	if err != nil {
		refuseCall(w, f, internal(err))
		return
	}
	defer flow.close()
	ev, err := flow.next(r.Context(), c.request.Output-1)
	if r.Context().Err() != nil {
		return
	}
	if err != nil {
		refuseCall(w, f, internal(err))
		return
	}
	c.cached = ev.Cached
	writeJSON(w, http.StatusOK, f.whole(c))
}

// generateStream writes each token as it comes. A client that reads slowly gets
// several tokens in one event, as from vLLM.
func (s *server) generateStream(w http.ResponseWriter, r *http.Request, c *call, f format, rank int) {
	flow, err := s.pick(rank).submit(c.request, c.maxTokens, c.answer.ended)
	if err != nil {
		fail(w, f, err)
		return
	}
	defer flow.close()
	out := http.NewResponseController(w)
	buf := make([]byte, 0, 1024)
	for seen := 0; seen < c.request.Output; {
		ev, err := flow.next(r.Context(), seen)
		if r.Context().Err() != nil {
			return
		}
		if err != nil {
			fail(w, f, err)
			return
		}
		buf = buf[:0]
		if seen == 0 {
			c.cached = ev.Cached
			buf = append(buf, f.open(c)...)
		}
		if n := s.faults.cutAfter(); n > 0 && ev.Output >= n {
			panic(http.ErrAbortHandler) // breaks the connection, as a dying process does
		}
		buf = append(buf, f.token(c, c.answer.text(seen, ev.Output), ev.Output, ev.Done)...)
		seen = ev.Output
		if ev.Done {
			buf = append(buf, f.end(c)...)
		}
		if _, err := w.Write(buf); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
	}
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

// pick returns the core of a rank, or for rank -1 the one with the fewest requests.
// Equal ones take turns.
func (s *server) pick(rank int) *core {
	if rank >= 0 {
		return s.cores[rank]
	}
	if len(s.cores) == 1 {
		return s.cores[0]
	}
	first := int(s.turn.Add(1) % uint64(len(s.cores)))
	best, load := s.cores[first], s.cores[first].busy()
	for i := 1; i < len(s.cores); i++ {
		c := s.cores[(first+i)%len(s.cores)]
		if n := c.busy(); n < load {
			best, load = c, n
		}
	}
	return best
}
