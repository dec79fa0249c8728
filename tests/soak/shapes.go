package main

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// call is one request and what may become of it.
type call struct {
	shape   string
	path    string
	body    string
	session string
	leaves  time.Duration // after which the client leaves; 0 is never
	// statuses that may answer it; nil when the client may leave before there is one.
	statuses []int
	ends     string // how a whole answer ends; empty when it may be cut
}

// shape makes requests of one kind. Weights are in thousandths.
type shape struct {
	name   string
	weight int
	make   func(r *rand.Rand, n int) call
}

var (
	fine = []int{http.StatusOK}
	// A replica that failed a few times rests, and so may all of them.
	failing = []int{http.StatusOK, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable}
)

var shapes = []shape{
	{"keyed streams", 250, func(r *rand.Rand, n int) call {
		return call{path: "/v1/chat/completions", body: chat(true, "hello"), session: someone(r, n), statuses: fine, ends: done}
	}},
	{"keyed answers", 150, func(r *rand.Rand, n int) call {
		return call{path: "/v1/chat/completions", body: chat(false, "hello"), session: someone(r, n), statuses: fine, ends: "}"}
	}},
	{"messages", 100, func(r *rand.Rand, n int) call {
		stream := n%2 == 0
		c := call{path: "/v1/messages", session: someone(r, n), statuses: fine, ends: "}"}
		c.body = fmt.Sprintf(`{"model":"claude-soak","stream":%t,"max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`, stream)
		if stream {
			c.ends = "data: {\"type\":\"message_stop\"}\n\n"
		}
		return c
	}},
	{"responses", 150, func(r *rand.Rand, n int) call {
		return call{path: "/v1/responses", body: `{"model":"soak","input":"hello"}`, session: someone(r, n), statuses: fine, ends: "}"}
	}},
	{"chains", 150, func(r *rand.Rand, n int) call {
		return call{path: "/v1/chat/completions", body: chain(r, n), statuses: fine, ends: done}
	}},
	{"busy", 80, func(*rand.Rand, int) call {
		return call{path: "/v1/chat/completions", body: chat(true, "hello"), session: "a-busy-conversation", statuses: fine, ends: done}
	}},
	{"aborts", 80, func(r *rand.Rand, n int) call {
		return call{path: "/v1/chat/completions", body: chat(n%2 == 0, "hello"), session: someone(r, n), leaves: 1 + time.Duration(r.Int64N(int64(5*time.Millisecond)))}
	}},
	{"refused", 30, func(r *rand.Rand, n int) call {
		switch n % 3 {
		case 0:
			return call{path: "/v1/chat/completions", body: chat(true, faultRefuse), session: someone(r, n), statuses: []int{http.StatusBadRequest}}
		case 1:
			return call{path: "/v1/chat/completions", body: fmt.Sprintf(`{"model":"nobody-%d","messages":[]}`, n), statuses: []int{http.StatusNotFound}}
		default:
			return call{path: "/v1/chat/completions", body: `{"model":"soak","messages":[`, statuses: []int{http.StatusBadRequest}}
		}
	}},
	{"failures", 10, func(r *rand.Rand, n int) call {
		fault := []string{faultFail, faultCut, faultEarly}[n%3]
		return call{path: "/v1/chat/completions", body: chat(true, fault), session: someone(r, n), statuses: failing}
	}},
}

func chat(stream bool, text string) string {
	return fmt.Sprintf(`{"model":"soak","stream":%t,"messages":[{"role":"user","content":%q}]}`, stream, text)
}

// someone is a conversation: every second time a new one, else one of a few thousand.
func someone(r *rand.Rand, n int) string {
	if n%2 == 0 {
		return fmt.Sprintf("conversation-of-its-own-%d", n)
	}
	return fmt.Sprintf("conversation-that-returns-%d", r.IntN(2000))
}

// chain is a turn of a conversation that has no id: it sends all turns before again.
func chain(r *rand.Rand, n int) string {
	var messages []string
	who := n - r.IntN(4000)
	for turn := range 1 + r.IntN(6) {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"turn %d of conversation %d"}`, turn, who), `{"role":"assistant","content":"hi"}`)
	}
	return fmt.Sprintf(`{"model":"soak","stream":true,"messages":[%s]}`, strings.Join(messages[:len(messages)-1], ","))
}

// choose makes request n.
func choose(r *rand.Rand, n int) call {
	pick := r.IntN(1000)
	for _, s := range shapes {
		if pick -= s.weight; pick < 0 {
			c := s.make(r, n)
			c.shape = s.name
			return c
		}
	}
	panic("the weights of the shapes do not add up to 1000")
}

// odd says what is wrong with an answer; empty when it is one that may come.
func (c call) odd(status int, body string, err error) string {
	switch {
	case c.leaves > 0:
		return ""
	case status == 0:
		return fmt.Sprintf("%s: no answer: %v", c.shape, err)
	case !slices.Contains(c.statuses, status):
		return fmt.Sprintf("%s: answered %d: %s", c.shape, status, body)
	case c.ends != "" && (err != nil || !strings.HasSuffix(body, c.ends)):
		return fmt.Sprintf("%s: the answer is not whole: %v: %s", c.shape, err, body)
	}
	return ""
}
