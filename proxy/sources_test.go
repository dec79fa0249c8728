package proxy

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lmwarden/lmwarden/proxy/wire"
)

// What names a conversation beyond the usual sources is off until it is asked for, changes
// live, and the header of our own has the name that it was given.
func TestConfiguredSources(t *testing.T) {
	const body = `{"model":"m","user":"alice@example.org","messages":[{"role":"user","content":"Hi"}]}`
	for name, test := range map[string]struct {
		identity wire.Options
		header   string
		want     wire.Source
	}{
		"nothing asked for":       {want: wire.SourceChain},
		"a header of no meaning":  {header: "X-Dynamo-Session-Id", want: wire.SourceChain},
		"a further header":        {identity: wire.Options{ExtraHeaders: []string{"X-Dynamo-Session-Id"}}, header: "X-Dynamo-Session-Id", want: wire.SourceExtra},
		"the user":                {identity: wire.Options{User: true}, want: wire.SourceUser},
		"the user, behind others": {identity: wire.Options{User: true}, header: "X-Session-Id", want: wire.SourceXSessionID},
		"our own header":          {header: "X-Our-Session", want: wire.SourceOwn},
		"not its usual name":      {header: wire.DefaultHeader, want: wire.SourceChain},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBox(t, 1, answers(1), func(o *Options, _ *Snapshot) { o.SessionHeader = "x-our-session" })
				b.change(func(m *Model) { m.Identity = test.identity })
				var headers []string
				if test.header != "" {
					headers = []string{test.header, "conversation-of-today"}
				}
				got := b.post("/v1/chat/completions", body, headers...)
				if got.status != http.StatusOK || got.header.Get(headerKeySource) != test.want.String() {
					t.Errorf("got %d, told by %s, want %s", got.status, got.header.Get(headerKeySource), test.want)
				}
			})
		})
	}
}

// The address that a connection comes from names a conversation when that is asked for;
// what a proxy before ours says of its clients does not.
func TestClientAddressAsSource(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBox(t, 1, answers(1))
		b.change(func(m *Model) { m.Identity = wire.Options{ClientIP: true} })
		seen := map[string]string{} // conversation of each address
		for _, from := range []string{"192.0.2.1:1234", "192.0.2.1:4321", "192.0.2.2:1234"} {
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader(chat("m", false)))
			r.RemoteAddr = from
			r.Header.Set("X-Forwarded-For", "198.51.100.7")
			w := httptest.NewRecorder()
			b.proxy.ServeHTTP(w, r)
			if source := w.Header().Get(headerKeySource); w.Code != http.StatusOK || source != wire.SourceClientIP.String() {
				t.Errorf("%s: got %d, told by %s", from, w.Code, source)
			}
			seen[from] = w.Header().Get(headerConversation)
		}
		if seen["192.0.2.1:1234"] != seen["192.0.2.1:4321"] || seen["192.0.2.1:1234"] == seen["192.0.2.2:1234"] {
			t.Errorf("the conversations are %v, want one for each address", seen)
		}
	})
}
