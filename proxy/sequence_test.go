package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// TestErrorEventGoesOnCounting breaks a stream of the responses surface off: the event
// that says so has the number after the last one, or clients take it for a repetition.
func TestErrorEventGoesOnCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBox(t, 1, func(w http.ResponseWriter, _ *http.Request) {
			frames := []string{"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"},\"sequence_number\":0}\n\n"}
			for n := 1; n <= 5; n++ {
				frames = append(frames, fmt.Sprintf("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"x\",\"sequence_number\":%d}\n\n", n))
			}
			sendFrames(w, frames, 0)
			panic(http.ErrAbortHandler)
		})
		got := b.post("/v1/responses", `{"model":"m","stream":true,"input":"hello"}`)
		_, last, found := strings.Cut(got.body, "event: error\n")
		if !found || !strings.Contains(last, `"sequence_number":6`) {
			t.Errorf("got %q; want an error event with the number 6", got.body)
		}
		b.wantIdle()
	})
}
