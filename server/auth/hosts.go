package auth

import (
	"net"
	"net/http"
	"strings"
)

// LocalHosts serves only requests whose Host header is a loopback address or
// localhost. A listener without a token needs it: a page of another site can point a
// name of its own at 127.0.0.1 and would then count as the same origin.
func LocalHosts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) {
			http.Error(w, "this listener answers to loopback addresses and localhost only; to reach it by another name, set admin_auth.token_file", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func localHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback()
	}
	return strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost")
}
