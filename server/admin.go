package server

import (
	"io"
	"net/http"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect/v2"
	"connectrpc.com/validate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/server/auth"
	"github.com/lmwarden/lmwarden/server/face"
)

// services are the names of the API's services, as health checks ask for them.
var services = []string{
	lmwardenv1connect.ModelServiceName,
	lmwardenv1connect.ReplicaServiceName,
	lmwardenv1connect.RoutingServiceName,
	lmwardenv1connect.StatsServiceName,
	lmwardenv1connect.GpuServiceName,
	lmwardenv1connect.KeyServiceName,
	lmwardenv1connect.SystemServiceName,
}

// newAPI returns the API with everything that stands before a handler: errors are
// mapped outermost, then the token is checked, before a body is decoded, then the
// rules of the request's fields.
// Token is nil for callers within the process.
func newAPI(c *control, token *auth.Token) *connect.Server {
	interceptors := []connect.ServerInterceptor{mapErrors(c.log)}
	if token != nil {
		interceptors = append(interceptors, auth.RequireToken(*token))
	}
	interceptors = append(interceptors, validate.NewServerInterceptor(validate.WithValidator(face.Rules{})))
	api := connect.NewServer(interceptors...)
	lmwardenv1connect.RegisterModelServiceHandler(api, modelService{c})
	lmwardenv1connect.RegisterReplicaServiceHandler(api, replicaService{c})
	lmwardenv1connect.RegisterRoutingServiceHandler(api, routingService{c})
	lmwardenv1connect.RegisterStatsServiceHandler(api, statsService{c})
	lmwardenv1connect.RegisterGpuServiceHandler(api, gpuService{c})
	lmwardenv1connect.RegisterKeyServiceHandler(api, keyService{c})
	lmwardenv1connect.RegisterSystemServiceHandler(api, systemService{c})
	return api
}

// newAdminHandler returns what the admin listener answers: the API as Connect, gRPC
// and gRPC-Web, reflection, health, metrics and the page.
func newAdminHandler(api *connect.Server, c *control, metrics prometheus.Gatherer, page http.Handler) http.Handler {
	grpcreflect.Register(api)
	mux := http.NewServeMux()
	connecthttp.Mount(mux, api, codecs())
	mux.Handle(grpchealth.NewHandler(grpchealth.NewStaticChecker(services...)))
	mux.Handle("/metrics", requireToken(c.access, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n") // a client that left needs no answer
	})
	if page != nil {
		mux.Handle("/", page)
	}
	return guardAdmin(mux, c.cfg, c.access)
}

// requireToken asks for the admin token as the API does, when there is one.
func requireToken(a access, next http.Handler) http.Handler {
	if a.token == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.token.Matches(auth.Bearer(r.Header.Get("Authorization"))) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "this daemon asks for its admin token; send it as \"Authorization: Bearer TOKEN\"", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
