package server

import (
	"net/http"
	"strconv"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy/wire"
	"github.com/lmwarden/lmwarden/server/auth"
)

// guardAdmin keeps pages of other sites from the admin listener. One with a token may
// be reached by any name.
func guardAdmin(next http.Handler, cfg *lmwardenv1.Config, a access) http.Handler {
	refuse := func(w http.ResponseWriter, r *http.Request, status int, message string) {
		if status == http.StatusMisdirectedRequest {
			message += " To reach it by another name, set admin_auth.token_file."
		}
		auth.Plainly(w, r, status, message)
	}
	if a.token == nil && loopback(cfg.GetAdminListen()) {
		next = auth.LocalHosts(next, refuse, cfg.GetAdminListen())
	}
	return auth.OwnPages(next, refuse)
}

// guardInference keeps pages of other sites from an inference listener that is there
// for this host alone and asks for no key: without it any page that a person on this
// host looks at could use the models. With keys the key is the protection, and a
// listener for the network without keys was asked for with insecure.
func guardInference(next http.Handler, cfg *lmwardenv1.Config) http.Handler {
	if cfg.GetInferenceAuth().GetKeysFile() != "" || !loopback(cfg.GetInferenceListen()) {
		return next
	}
	return auth.OwnPages(auth.LocalHosts(next, refuseInference, cfg.GetInferenceListen()), refuseInference)
}

// refuseInference refuses in the shape of the API that was called.
func refuseInference(w http.ResponseWriter, r *http.Request, status int, message string) {
	if status == http.StatusMisdirectedRequest {
		message += " To reach it by another name, set inference_auth.keys_file."
	} else {
		message += " To use the models from web pages, let a server of the page's own origin pass the requests on."
	}
	text := wire.ErrorBody(wire.APIOf(r.Method, r.URL.Path), status, message, "")
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a client that left needs no answer
}
