package auth

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Refuse answers a request that is refused with a status and a sentence, in the form
// that the clients of a listener read.
type Refuse func(w http.ResponseWriter, r *http.Request, status int, message string)

// Plainly refuses in plain text.
func Plainly(w http.ResponseWriter, _ *http.Request, status int, message string) {
	http.Error(w, message, status)
}

// LocalHosts serves only requests whose Host header is an address, localhost or one of
// the names, with or without a port. A loopback listener that asks for no secret needs
// it: a page of another site can point a name of its own at 127.0.0.1 and would then
// count as the same origin. An address passes, because nobody can make it mean another
// host. Refuse is told what is wrong; it knows what the person can do about it.
func LocalHosts(next http.Handler, refuse Refuse, names ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host, names) {
			refuse(w, r, http.StatusMisdirectedRequest, "This listener asks for no secret, so it answers to addresses and to localhost only, not to a name that any web page could have chosen.")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// OwnPages refuses what a browser sends on behalf of a page of another origin, except
// what only reads: that page cannot see an answer, but could have something done.
// Clients that are no browsers send none of the headers that tell.
func OwnPages(next http.Handler, refuse Refuse) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusForbidden, "A browser sent this on behalf of a page of another origin, which is refused.")
	}))
	return protection.Handler(next)
}

func localHost(hostport string, names []string) bool {
	host := hostOf(hostport)
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	for _, name := range names {
		if host != "" && host == hostOf(name) {
			return true
		}
	}
	return false
}

// hostOf returns the host of a Host header, to be compared.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
