package product

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/tests/harness"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
)

// run runs a command line tool and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// One port answers everybody: curl, the generated client in three protocols,
// grpcurl by reflection.
func TestOnePortAnswersEverybody(t *testing.T) {
	d := startBox(t, 1)

	t.Run("curl with JSON", func(t *testing.T) {
		got := run(t, "curl", "-fsS", "-H", "Content-Type: application/json", "-d", `{"name":"`+model+`"}`,
			d.AdminURL+"/lmwarden.v1.ModelService/GetModel")
		var answer struct {
			Model struct{ Name string }
		}
		if json.Unmarshal([]byte(got), &answer) != nil || answer.Model.Name != model {
			t.Errorf("answered %s", got)
		}
	})
	t.Run("curl with GET", func(t *testing.T) {
		got := run(t, "curl", "-fsS", "-G", d.AdminURL+"/lmwarden.v1.SystemService/GetInfo",
			"--data-urlencode", "connect=v1", "--data-urlencode", "encoding=json", "--data-urlencode", "message={}")
		if !strings.Contains(got, d.InferenceURL) {
			t.Errorf("answered %s", got)
		}
	})

	h2c := &http.Client{Transport: &http.Transport{Protocols: new(http.Protocols)}}
	h2c.Transport.(*http.Transport).Protocols.SetUnencryptedHTTP2(true)
	for _, tc := range []struct {
		name    string
		client  *http.Client
		options []connecthttp.Option
	}{
		{"Go client, Connect", http.DefaultClient, nil},
		{"Go client, Connect over HTTP/2", h2c, nil},
		{"Go client, gRPC", h2c, []connecthttp.Option{connecthttp.WithGRPC()}},
		{"Go client, gRPC-Web", http.DefaultClient, []connecthttp.Option{connecthttp.WithGRPCWeb()}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client := connect.NewClient(connecthttp.NewTransport(tc.client, d.AdminURL, tc.options...))
			answer, err := lmwardenv1connect.NewModelServiceClient(client).ListModels(t.Context(), &lmwardenv1.ListModelsRequest{})
			if err != nil || len(answer.GetModels()) != 1 {
				t.Fatalf("ListModels: %v, %v", answer, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			stream, err := lmwardenv1connect.NewRoutingServiceClient(client).WatchRouting(ctx, &lmwardenv1.WatchRoutingRequest{Model: model})
			if err != nil {
				t.Fatal(err)
			}
			first, err := stream.Receive()
			if err != nil || first.GetCard().GetModel() != model {
				t.Errorf("the first message of WatchRouting: %v, %v", first, err)
			}
		})
	}

	t.Run("grpcurl by reflection", func(t *testing.T) {
		grpcurl := os.Getenv("LMWARDEN_GRPCURL")
		if grpcurl == "" {
			t.Fatal("LMWARDEN_GRPCURL is not set: run make test")
		}
		address := strings.TrimPrefix(d.AdminURL, "http://")
		services := run(t, grpcurl, "-plaintext", address, "list")
		for _, want := range []string{"ModelService", "ReplicaService", "RoutingService", "StatsService", "GpuService", "SystemService"} {
			if !strings.Contains(services, "lmwarden.v1."+want) {
				t.Errorf("reflection does not list %s: %s", want, services)
			}
		}
		got := run(t, grpcurl, "-plaintext", "-d", `{"model":"`+model+`"}`, address, "lmwarden.v1.RoutingService/GetRouting")
		if !strings.Contains(got, `"spillThreshold": 8`) {
			t.Errorf("GetRouting: %s", got)
		}
		health := run(t, grpcurl, "-plaintext", address, "grpc.health.v1.Health/Check")
		if !strings.Contains(health, "SERVING") {
			t.Errorf("health: %s", health)
		}
	})
}

// Models and settings made through the API survive a restart of the daemon.
func TestStateSurvivesARestart(t *testing.T) {
	dir := t.TempDir()
	first := harness.Start(t, harness.Options{Config: engines(t), Env: fast, DataDir: dir})
	_, err := first.Models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{
		Name: model,
		Spec: &lmwardenv1.ModelSpec{Source: "Qwen/Qwen3-4B-Instruct-2507", Replicas: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	waitReady(t, first, 2)
	off, threshold := false, uint32(5)
	changed, err := first.Routing.UpdateRouting(t.Context(), &lmwardenv1.UpdateRoutingRequest{
		Model:      model,
		Settings:   &lmwardenv1.RoutingSettings{Affinity: &off, SpillThreshold: &threshold},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"affinity", "spill_threshold"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := changed.GetCard(); c.GetAffinity() || c.GetSpillThreshold() != 5 || c.GetSpillThresholdAuto() {
		t.Errorf("the card after the change: affinity %v, threshold %d, auto %v", c.GetAffinity(), c.GetSpillThreshold(), c.GetSpillThresholdAuto())
	}
	if code := first.Stop(time.Minute); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	second := harness.Start(t, harness.Options{Config: engines(t), Env: fast, DataDir: dir})
	waitReady(t, second, 2)
	if c := card(t, second); c.GetAffinity() || c.GetSpillThreshold() != 5 || c.GetRevision() != changed.GetCard().GetRevision() {
		t.Errorf("after the restart: affinity %v, threshold %d, revision %d", c.GetAffinity(), c.GetSpillThreshold(), c.GetRevision())
	}
	got := post(t, second, "/v1/chat/completions", chat("hi"), "X-Session-Id", "conversation-one-1")
	if decision := got.header.Get("X-Lmwarden-Decision"); got.status != 200 || decision != "off" {
		t.Errorf("with affinity off: %d, decision %q", got.status, decision)
	}
}

// A declared model belongs to its file.
func TestDeclaredModelIsReadOnly(t *testing.T) {
	d := startBox(t, 1)
	_, err := d.Models.DeleteModel(t.Context(), &lmwardenv1.DeleteModelRequest{Name: model})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition || !strings.Contains(fmt.Sprint(err), "lmwarden.yaml") {
		t.Errorf("deleting a declared model: %v; want FAILED_PRECONDITION that names the file", err)
	}
}

// Two daemons do not share a data directory.
func TestDataDirectoryInUse(t *testing.T) {
	d := harness.Start(t, harness.Options{Config: engines(t)})
	exitsWith(t, harness.Launch(t, harness.Options{Config: engines(t), DataDir: d.DataDir}), 2, d.DataDir)
}

// An address that others reach is refused without keys.
func TestOpenAddressNeedsKeys(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	open := harness.Launch(t, harness.Options{Config: engines(t), Args: []string{"--inference-listen", fmt.Sprintf("0.0.0.0:%d", port)}})
	exitsWith(t, open, 2, "keys_file", "insecure")
}
