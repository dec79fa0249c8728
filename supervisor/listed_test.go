package supervisor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// An engine elsewhere may list several models: the length is that of the one asked for.
func TestLengthIsThatOfTheServedModel(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(w, `{"data":[{"id":"another","max_model_len":512},{"id":"m","max_model_len":4096}]}`)
		case "/v1/completions":
			fmt.Fprint(w, `{"choices":[{}]}`)
		}
	}))
	defer s.Close()
	for served, want := range map[string]int64{"m": 4096, "": 512, "not listed": 512} {
		p := &prober{client: s.Client(), base: s.URL, served: served, timing: Timing{}.withDefaults()}
		if err := p.first(t.Context()); err != nil || p.static.MaxModelLen == nil || *p.static.MaxModelLen != want {
			t.Errorf("for %q: %v, %v; want %d", served, p.static.MaxModelLen, err, want)
		}
	}
}
