package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"go.uber.org/goleak"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/gen/lmwarden/v1/lmwardenv1connect"
	"github.com/lmwarden/lmwarden/server/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(tidy{m})
}

// tidy lets go of the connections that the tests' clients have kept, before it is looked at
// what is left.
type tidy struct{ m *testing.M }

func (t tidy) Run() int {
	defer http.DefaultClient.CloseIdleConnections()
	return t.m.Run()
}

// testConfig is a daemon on free ports that leaves the cards alone.
func testConfig(t *testing.T) *lmwardenv1.Config {
	t.Helper()
	return &lmwardenv1.Config{InferenceListen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", DataDir: t.TempDir()}
}

func start(t *testing.T, o Options) (*Server, error) {
	t.Helper()
	o.NoGPU = true
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s, s.Start(t.Context())
}

func TestStartServeStop(t *testing.T) {
	s, err := start(t, Options{Config: testConfig(t), Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	code, got := body(t, "POST", "http://"+s.AdminAddr().String()+"/lmwarden.v1.SystemService/GetInfo", "{}", "Content-Type", jsonType)
	if code != 200 || !strings.Contains(got, "1.2.3") || !strings.Contains(got, s.InferenceAddr().String()) {
		t.Errorf("%d %s", code, got)
	}
	if code, got := body(t, "POST", "http://"+s.InferenceAddr().String()+"/v1/chat/completions", `{"model":"x"}`, "Content-Type", jsonType); code != 404 {
		t.Errorf("an unknown model: %d %s", code, got)
	}
	models := lmwardenv1connect.NewModelServiceClient(connect.NewClient(s.Transport()))
	if _, err := models.ListModels(t.Context(), &lmwardenv1.ListModelsRequest{}); err != nil {
		t.Error(err)
	}
	if err := s.Start(t.Context()); !errors.Is(err, ErrStarted) {
		t.Errorf("second start: %v", err)
	}
	listens := func() bool {
		return strings.Contains(portHolder("/proc", s.AdminAddr().(*net.TCPAddr).Port), fmt.Sprintf("(pid %d)", os.Getpid()))
	}
	if !listens() {
		t.Error("the admin listener is not open before the stop")
	}
	for range 2 {
		if err := s.Stop(t.Context()); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	// It is not called: somebody else may have been given the port since.
	if listens() {
		t.Error("the admin listener is open after the stop")
	}
}

func TestStopEndsOpenStreams(t *testing.T) {
	s, err := start(t, Options{Config: testConfig(t)})
	if err != nil {
		t.Fatal(err)
	}
	req := "http://" + s.AdminAddr().String() + "/lmwarden.v1.ModelService/WatchModels"
	resp, err := http.Post(req, "application/connect+json", strings.NewReader("\x00\x00\x00\x00\x02{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("the stop waited %v for a watcher", took)
	}
}

func TestPortTakenSaysByWhat(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cfg := testConfig(t)
	cfg.AdminListen = l.Addr().String()
	_, err = start(t, Options{Config: cfg})
	var taken *PortTakenError
	if !errors.As(err, &taken) || taken.Field != "admin_listen" {
		t.Fatalf("got %v, want a PortTakenError", err)
	}
	if me := fmt.Sprintf("(pid %d)", os.Getpid()); !strings.Contains(taken.Holder, me) || !strings.Contains(err.Error(), me) {
		t.Errorf("held by %q, want this process %s", taken.Holder, me)
	}
	// The first listener was closed again.
	if _, err := os.Stat(filepath.Join(cfg.GetDataDir(), databaseFile)); err == nil {
		t.Error("a start that cannot listen made a database")
	}
}

func TestDataDirectoryProblems(t *testing.T) {
	t.Run("not a directory", func(t *testing.T) {
		cfg := testConfig(t)
		cfg.DataDir = filepath.Join(cfg.GetDataDir(), "file")
		if err := os.WriteFile(cfg.GetDataDir(), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := start(t, Options{Config: cfg})
		var unwritable *store.UnwritableError
		if !errors.As(err, &unwritable) {
			t.Errorf("got %v, want an UnwritableError", err)
		}
	})
	t.Run("another daemon", func(t *testing.T) {
		cfg := testConfig(t)
		if _, err := start(t, Options{Config: cfg}); err != nil {
			t.Fatal(err)
		}
		_, err := start(t, Options{Config: cfg})
		var locked *store.LockedError
		if !errors.As(err, &locked) {
			t.Errorf("got %v, want a LockedError", err)
		}
	})
	t.Run("corrupt", func(t *testing.T) {
		cfg := testConfig(t)
		path := filepath.Join(cfg.GetDataDir(), databaseFile)
		if err := os.WriteFile(path, []byte(strings.Repeat("not a database", 1000)), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := start(t, Options{Config: cfg})
		var corrupt *store.CorruptError
		if !errors.As(err, &corrupt) || !strings.Contains(err.Error(), "--move-corrupt-database") {
			t.Fatalf("got %v, want a CorruptError with the flag", err)
		}
		if _, err := start(t, Options{Config: cfg, MoveCorruptAside: true}); err != nil {
			t.Errorf("when asked to move it aside: %v", err)
		}
		if aside, err := filepath.Glob(path + ".corrupt-*"); err != nil || len(aside) != 1 {
			t.Errorf("moved aside: %v, %v", aside, err)
		}
	})
}

func TestAddressesThatTheNetworkCanReach(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("sk-one # alice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		change func(*lmwardenv1.Config)
		err    string
		token  bool
		keys   int
		warn   int
	}{
		"loopback":       {func(*lmwardenv1.Config) {}, "", false, 0, 0},
		"open inference": {func(c *lmwardenv1.Config) { c.InferenceListen = "0.0.0.0:0" }, "inference_auth.keys_file", false, 0, 0},
		"inference, keys": {func(c *lmwardenv1.Config) {
			c.InferenceListen = ":0"
			c.InferenceAuth = &lmwardenv1.InferenceAuth{KeysFile: keys}
		}, "", false, 1, 0},
		"open admin": {func(c *lmwardenv1.Config) { c.AdminListen = "0.0.0.0:0" }, "", true, 0, 0},
		"insecure":   {func(c *lmwardenv1.Config) { c.InferenceListen, c.AdminListen, c.Insecure = ":0", ":0", true }, "", false, 0, 2},
		"token on loopback": {func(c *lmwardenv1.Config) {
			c.AdminAuth = &lmwardenv1.AdminAuth{TokenFile: filepath.Join(c.GetDataDir(), "t")}
		}, "", true, 0, 0},
		"keys file missing":  {func(c *lmwardenv1.Config) { c.InferenceAuth = &lmwardenv1.InferenceAuth{KeysFile: "/does/not/exist"} }, "cannot be read", false, 0, 0},
		"token not writable": {func(c *lmwardenv1.Config) { c.AdminAuth = &lmwardenv1.AdminAuth{TokenFile: keys + "/t"} }, "needs a token", false, 0, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t)
			test.change(cfg)
			var a access
			_, err := New(Options{Config: cfg})
			if err == nil {
				a, err = resolveAccess(withDefaults(cfg))
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v, want an error with %q", err, test.err)
				}
				return
			}
			if err != nil || (a.token != nil) != test.token || (a.made != "") != test.token || len(a.keys.current()) != test.keys || len(a.warnings) != test.warn {
				t.Errorf("token %v, made %q, keys %v, warnings %v, %v", a.token != nil, a.made, a.keys.current(), a.warnings, err)
			}
		})
	}
}

func TestModelsSurviveARestart(t *testing.T) {
	cfg := testConfig(t)
	s, err := start(t, Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	models := lmwardenv1connect.NewModelServiceClient(connect.NewClient(s.Transport()))
	created, err := models.CreateModel(t.Context(), &lmwardenv1.CreateModelRequest{
		Name: "m", Stopped: true, Spec: &lmwardenv1.ModelSpec{Source: "x"},
		Routing: &lmwardenv1.RoutingSettings{Admission: lmwardenv1.Admission_ADMISSION_WORKING_SET},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err = start(t, Options{Config: cfg}); err != nil {
		t.Fatal(err)
	}
	got, err := lmwardenv1connect.NewModelServiceClient(connect.NewClient(s.Transport())).GetModel(t.Context(), &lmwardenv1.GetModelRequest{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	m := got.GetModel()
	if m.GetRevision() != created.GetModel().GetRevision() || m.GetRunning() || m.GetRouting().GetAdmission() != lmwardenv1.Admission_ADMISSION_WORKING_SET || !m.GetCreated().AsTime().Equal(created.GetModel().GetCreated().AsTime()) {
		t.Errorf("after the restart: %v", m)
	}
}

func TestBrokenRecordIsShownAndDeleted(t *testing.T) {
	cfg := testConfig(t)
	st, err := store.Open(filepath.Join(cfg.GetDataDir(), databaseFile), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.CreateModel("ill", []byte("\xff\xff\xff")); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := start(t, Options{Config: cfg})
	if err != nil {
		t.Fatal(err)
	}
	models := lmwardenv1connect.NewModelServiceClient(connect.NewClient(s.Transport()))
	list, err := models.ListModels(t.Context(), &lmwardenv1.ListModelsRequest{})
	if err != nil || len(list.GetModels()) != 1 || list.GetModels()[0].GetStatus().GetState() != lmwardenv1.ModelState_MODEL_STATE_BROKEN {
		t.Fatalf("%v, %v", list, err)
	}
	_, err = models.StartModel(t.Context(), &lmwardenv1.StartModelRequest{Name: "ill"})
	wantError(t, err, connect.CodeFailedPrecondition, "is broken")
	if _, err := models.DeleteModel(t.Context(), &lmwardenv1.DeleteModelRequest{Name: "ill"}); err != nil {
		t.Error(err)
	}
}
