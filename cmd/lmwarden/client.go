package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"

	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
)

// defaultAddr is where a daemon with default settings answers.
const defaultAddr = "http://127.0.0.1:8001"

// clients holds the generated clients of one daemon.
type clients struct {
	raw      *connect.Client
	models   lmwardenv1connect.ModelServiceClient
	replicas lmwardenv1connect.ReplicaServiceClient
	routing  lmwardenv1connect.RoutingServiceClient
	gpus     lmwardenv1connect.GpuServiceClient
	stats    lmwardenv1connect.StatsServiceClient
	keys     lmwardenv1connect.KeyServiceClient
	system   lmwardenv1connect.SystemServiceClient
}

// dial returns the clients of the daemon that the flags name. It opens nothing yet.
func (a *app) dial() (*clients, error) {
	base := a.addr
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usageErrorf("--addr %q is not the address of a daemon; write it as %s", a.addr, defaultAddr)
	}
	a.addr = strings.TrimRight(base, "/")
	transport := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
	}
	var interceptors []connect.ClientInterceptor
	if a.token != "" {
		interceptors = append(interceptors, bearer(a.token))
	}
	raw := connect.NewClient(connecthttp.NewTransport(&http.Client{Transport: transport}, a.addr), interceptors...)
	return &clients{
		raw:      raw,
		models:   lmwardenv1connect.NewModelServiceClient(raw),
		replicas: lmwardenv1connect.NewReplicaServiceClient(raw),
		routing:  lmwardenv1connect.NewRoutingServiceClient(raw),
		gpus:     lmwardenv1connect.NewGpuServiceClient(raw),
		stats:    lmwardenv1connect.NewStatsServiceClient(raw),
		keys:     lmwardenv1connect.NewKeyServiceClient(raw),
		system:   lmwardenv1connect.NewSystemServiceClient(raw),
	}, nil
}

// bearer sends the token with every call.
func bearer(token string) connect.ClientInterceptor {
	return func(next connect.ClientFunc) connect.ClientFunc {
		return func(ctx context.Context, spec connect.Spec) (connect.ClientStream, error) {
			info, ok := connect.CallInfoForClientContext(ctx)
			if !ok {
				ctx, info = connect.NewClientContext(ctx)
			}
			info.RequestHeader().Set("Authorization", "Bearer "+token)
			return next(ctx, spec)
		}
	}
}
