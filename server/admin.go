package server

import (
	"context"
	"net/http"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect/v2"
	"connectrpc.com/validate"
	"google.golang.org/protobuf/types/known/timestamppb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/server/auth"
)

type adminOptions struct {
	info   *lmwardenv1.Info
	access access
	page   http.Handler
	local  bool
}

func now() *timestamppb.Timestamp { return timestamppb.Now() }

func newAdminHandler(o adminOptions) (http.Handler, error) {
	var interceptors []connect.ServerInterceptor
	if o.access.token != nil {
		interceptors = append(interceptors, auth.RequireToken(*o.access.token))
	}
	interceptors = append(interceptors, validate.NewServerInterceptor())
	api := connect.NewServer(interceptors...)
	lmwardenv1connect.RegisterSystemServiceHandler(api, systemService{info: o.info})
	grpcreflect.Register(api)
	mux := http.NewServeMux()
	connecthttp.Mount(mux, api)
	mux.Handle(grpchealth.NewHandler(grpchealth.NewStaticChecker(lmwardenv1connect.SystemServiceName)))
	if o.page != nil {
		mux.Handle("/", o.page)
	}
	return mux, nil
}

type systemService struct {
	lmwardenv1connect.UnimplementedSystemServiceHandler
	info *lmwardenv1.Info
}

func (s systemService) GetInfo(context.Context, *lmwardenv1.GetInfoRequest) (*lmwardenv1.GetInfoResponse, error) {
	return &lmwardenv1.GetInfoResponse{Info: s.info}, nil
}
