package server

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/grpcreflect/v2"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/reflect/protoreflect"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/server/auth"
)

// listenRig serves the admin listener of a rig over a real socket.
func listenRig(t *testing.T, r *rig) string {
	t.Helper()
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "the page") })
	srv := httptest.NewUnstartedServer(newAdminHandler(newAPI(r.control, r.access.token), r.control, prometheus.NewRegistry(), page))
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetHTTP1(true)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv.URL
}

// h2c returns a client that speaks HTTP/2 without TLS, as gRPC clients do.
func h2c(t *testing.T) *http.Client {
	t.Helper()
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func body(t *testing.T, method, target, text string, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

const jsonType = "application/json"

func TestOnePortAnswersEveryProtocol(t *testing.T) {
	r := newRig(t, nil)
	r.create(t, "m", 1)
	base := listenRig(t, r)
	transports := map[string]connect.Transport{
		"connect":         connecthttp.NewTransport(http.DefaultClient, base),
		"connect get":     connecthttp.NewTransport(http.DefaultClient, base, connecthttp.WithHTTPGet()),
		"connect json":    connecthttp.NewTransport(http.DefaultClient, base, connecthttp.WithProtoJSON()),
		"connect h2c":     connecthttp.NewTransport(h2c(t), base),
		"grpc":            connecthttp.NewTransport(h2c(t), base, connecthttp.WithGRPC()),
		"grpc-web":        connecthttp.NewTransport(http.DefaultClient, base, connecthttp.WithGRPCWeb()),
		"grpc-web stream": connecthttp.NewTransport(h2c(t), base, connecthttp.WithGRPCWeb()),
	}
	for name, transport := range transports {
		t.Run(name, func(t *testing.T) {
			c := connect.NewClient(transport)
			got, err := lmwardenv1connect.NewModelServiceClient(c).GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "m"})
			if err != nil || got.GetModel().GetName() != "m" {
				t.Errorf("%v, %v", got, err)
			}
			_, err = lmwardenv1connect.NewModelServiceClient(c).GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "x"})
			if info := wantError(t, err, connect.CodeNotFound, "there are m"); info.GetReason() != "MODEL_NOT_FOUND" {
				t.Errorf("detail %v", info)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stream, err := lmwardenv1connect.NewRoutingServiceClient(c).WatchRouting(ctx, &lmwardenv1.WatchRoutingRequest{Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Close()
			if m, err := stream.Receive(); err != nil || m.GetCard().GetModel() != "m" {
				t.Errorf("stream: %v, %v", m, err)
			}
		})
	}
}

func TestPlainHTTP(t *testing.T) {
	base := listenRig(t, newRig(t, nil))
	const getInfo = "/lmwarden.v1.SystemService/GetInfo"
	tests := map[string]struct {
		method, path, text string
		header             []string
		code               int
		want               string
	}{
		"json":           {"POST", getInfo, "{}", []string{"Content-Type", jsonType}, 200, `"version":"test"`},
		"get":            {"GET", getInfo + "?connect=v1&encoding=json&message=" + url.QueryEscape("{}"), "", nil, 200, `"version":"test"`},
		"not found":      {"POST", "/lmwarden.v1.ModelService/GetModel", `{"name":"x"}`, []string{"Content-Type", jsonType}, 404, `"code":"not_found"`},
		"not valid":      {"POST", "/lmwarden.v1.ModelService/GetModel", `{}`, []string{"Content-Type", jsonType}, 400, "name: must be at least 1 character"},
		"no such method": {"POST", "/lmwarden.v1.ModelService/Nothing", `{}`, []string{"Content-Type", jsonType}, 501, "unimplemented"},
		"unknown field":  {"POST", "/lmwarden.v1.ReplicaService/RestartReplica", `{"model":"m","replica":3}`, []string{"Content-Type", jsonType}, 400, `unknown field \"replica\"`},
		"unknown inside": {"POST", "/lmwarden.v1.ModelService/CreateModel", `{"name":"m","spec":{"modle":"x"}}`, []string{"Content-Type", jsonType}, 400, `unknown field \"modle\"`},
		"unknown by get": {"GET", getInfo + "?connect=v1&encoding=json&message=" + url.QueryEscape(`{"x":1}`), "", nil, 400, `unknown field \"x\"`},
		"health":         {"POST", "/grpc.health.v1.Health/Check", `{"service":"lmwarden.v1.ModelService"}`, []string{"Content-Type", jsonType}, 200, "SERVING"},
		"healthz":        {"GET", "/healthz", "", nil, 200, "ok"},
		"metrics":        {"GET", "/metrics", "", nil, 200, ""},
		"page":           {"GET", "/models/x", "", nil, 200, "the page"},
		"other site":     {"POST", getInfo, "{}", []string{"Content-Type", jsonType, "Sec-Fetch-Site", "cross-site", "Origin", "http://evil.example"}, 403, ""},
		"rebound name":   {"GET", "/healthz", "", []string{"Host", "evil.example:8001"}, 421, "localhost only"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, got := body(t, test.method, base+test.path, test.text, test.header...)
			if code != test.code || !strings.Contains(strings.ReplaceAll(got, " ", ""), strings.ReplaceAll(test.want, " ", "")) {
				t.Errorf("%d %s; want %d with %s", code, got, test.code, test.want)
			}
		})
	}
}

func TestReflectionListsEveryService(t *testing.T) {
	base := listenRig(t, newRig(t, nil))
	client := grpcreflect.NewClient(connect.NewClient(connecthttp.NewTransport(h2c(t), base, connecthttp.WithGRPC())))
	stream := client.NewStream(t.Context())
	defer stream.Close()
	names, err := stream.ListServices()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range services {
		if !slices.Contains(names, protoreflect.FullName(want)) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
	files, err := stream.FileContainingSymbol("lmwarden.v1.RoutingSettings")
	if err != nil || len(files) == 0 {
		t.Errorf("the definition of RoutingSettings: %d files, %v", len(files), err)
	}
}

func TestTokenIsCheckedBeforeTheBody(t *testing.T) {
	r := newRig(t, nil)
	token := auth.NewToken("0123456789abcdef")
	r.access.token = &token
	base := listenRig(t, r)
	const getInfo = "/lmwarden.v1.SystemService/GetInfo"
	for name, test := range map[string]struct {
		path, text string
		header     []string
		code       int
	}{
		"none":            {getInfo, "{}", nil, 401},
		"wrong":           {getInfo, "{}", []string{"Authorization", "Bearer x"}, 401},
		"body not read":   {getInfo, "this is no JSON", nil, 401},
		"right":           {getInfo, "{}", []string{"Authorization", "Bearer 0123456789abcdef"}, 200},
		"right, bad body": {getInfo, "this is no JSON", []string{"Authorization", "Bearer 0123456789abcdef"}, 400},
		"metrics":         {"/metrics", "", nil, 401},
		"page":            {"/", "", nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			if code, got := body(t, "POST", base+test.path, test.text, append(test.header, "Content-Type", jsonType)...); code != test.code {
				t.Errorf("%d %s, want %d", code, got, test.code)
			}
		})
	}
	c := connect.NewClient(connecthttp.NewTransport(h2c(t), base, connecthttp.WithGRPC()))
	_, err := lmwardenv1connect.NewSystemServiceClient(c).GetInfo(t.Context(), &lmwardenv1.GetInfoRequest{})
	wantError(t, err, connect.CodeUnauthenticated, "LMWARDEN_TOKEN")
}
