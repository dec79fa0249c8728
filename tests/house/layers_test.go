package house

import (
	"strings"
	"testing"
)

// A wall says what the packages below a folder must not import. Names without a
// slash or dot are folders of this repository, with everything below them.
type wall struct {
	below     string   // the folder and everything below it
	forbidden []string // folders or import paths
	only      []string // when set, the only folders of ours that may be imported
	why       string
}

var walls = []wall{
	{
		below:     "proxy",
		forbidden: []string{"server", "supervisor", "gen", "sim", "bench", "cmd", "ui", "go.etcd.io/bbolt", "connectrpc.com"},
		why:       "the hot path knows nothing of the control plane",
	},
	{
		below: "proxy/route",
		only:  []string{},
		why:   "the decision core is pure",
	},
	{
		below: "proxy/upstream",
		only:  []string{},
		why:   "the way to an engine knows no model and no retry",
	},
	{
		below: "proxy/wire",
		only:  []string{},
		why:   "the wire shapes have no policy",
	},
	{
		below:     "supervisor",
		forbidden: []string{"proxy", "server", "gen", "sim", "bench", "cmd", "ui", "go.etcd.io/bbolt", "connectrpc.com"},
		why:       "the supervisor owns processes and nothing else",
	},
	{
		below: "server/store",
		only:  []string{},
		why:   "the store keeps bytes and knows no vocabulary",
	},
	{
		below: "sim/engine",
		only:  []string{},
		why:   "the engine model is pure",
	},
	{
		below: "sim/vllmd",
		only:  []string{"sim/engine", "sim/vllmd"},
		why:   "the simulated engine is a program of its own",
	},
	{
		below: "sim/run",
		only:  []string{"proxy/route", "proxy/wire", "sim/engine", "sim/run"},
		why:   "virtual time drives the same core and the same model",
	},
	{
		below:     "bench",
		forbidden: []string{"server", "supervisor", "cmd", "ui", "go.etcd.io/bbolt"},
		why:       "the load runs against any endpoint",
	},
	{
		below:     "server",
		forbidden: []string{"sim", "bench", "cmd"},
		why:       "the daemon does not know that a box may be simulated",
	},
}

// below says whether a folder is dir or lies below it.
func below(folder, dir string) bool {
	return folder == dir || strings.HasPrefix(folder, dir+"/")
}

func TestLayers(t *testing.T) {
	for _, src := range sources(t) {
		for _, w := range walls {
			if !below(src.dir, w.below) {
				continue
			}
			for _, imported := range src.imports() {
				folder, ours := strings.CutPrefix(imported, module+"/")
				if broken(w, src.dir, folder, imported, ours) {
					t.Errorf("%s imports %s, but %s: see the walls in tests/house", src.path, imported, w.why)
				}
			}
		}
	}
}

func broken(w wall, dir, folder, imported string, ours bool) bool {
	for _, f := range w.forbidden {
		if ours && below(folder, f) || !ours && below(imported, f) {
			return true
		}
	}
	if w.only == nil || !ours || folder == dir {
		return false
	}
	for _, allowed := range w.only {
		if below(folder, allowed) {
			return false
		}
	}
	return true
}

// NVML ends the process when it is called wrongly, so one package deals with it.
func TestOnlyOnePackageKnowsNVML(t *testing.T) {
	for _, src := range sources(t) {
		for _, imported := range src.imports() {
			if strings.HasPrefix(imported, "github.com/NVIDIA/go-nvml") && src.dir != "supervisor/gpu" {
				t.Errorf("%s imports %s; only supervisor/gpu may", src.path, imported)
			}
		}
	}
}

// Two logging libraries would be two formats in one journal. The simulated engine
// keeps none: it needs the standard one to silence http.Server, which takes no other, and
// the daemon to lead its lines into ours.
func TestNobodyUsesAnotherLogger(t *testing.T) {
	for _, src := range sources(t) {
		for _, imported := range src.imports() {
			if imported == "log" && (src.dir == "sim/vllmd" || src.path == "server/tls.go") {
				continue
			}
			if imported == "log/slog" || imported == "log" || imported == "github.com/rs/zerolog/log" {
				t.Errorf("%s imports %s; a zerolog.Logger is a constructor argument", src.path, imported)
			}
		}
	}
}

// Client verbs use the generated client only: what they can do, a script can do.
func TestNobodyButTheDaemonOpensTheDatabase(t *testing.T) {
	for _, src := range sources(t) {
		for _, imported := range src.imports() {
			if imported == module+"/server/store" && src.dir != "server" && src.dir != "server/store" {
				t.Errorf("%s imports the store; only server may", src.path)
			}
		}
	}
}

// The wall test is worth nothing if it cannot fail.
func TestAWallIsFelt(t *testing.T) {
	pure := wall{below: "proxy/route", only: []string{}}
	if !broken(pure, "proxy/route", "proxy/wire", module+"/proxy/wire", true) {
		t.Error("an import of ours in a pure package was let through")
	}
	hot := wall{below: "proxy", forbidden: []string{"gen", "go.etcd.io/bbolt"}}
	if !broken(hot, "proxy", "gen/lmwarden/v1", module+"/gen/lmwarden/v1", true) {
		t.Error("a forbidden folder was let through")
	}
	if !broken(hot, "proxy", "go.etcd.io/bbolt", "go.etcd.io/bbolt", false) {
		t.Error("a forbidden module was let through")
	}
	if broken(hot, "proxy", "proxy/route", module+"/proxy/route", true) {
		t.Error("a package of the same room was refused")
	}
}
