package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"buf.build/go/protoyaml"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/server/auth"
	"github.com/lmwarden/lmwarden/server/face"
)

// Defaults of the configuration.
const (
	defaultInferenceListen = "127.0.0.1:8000"
	defaultAdminListen     = "127.0.0.1:8001"
	defaultMaxBodyBytes    = 64 << 20
	defaultPortBase        = 18100
	defaultDrainTimeout    = 30 * time.Second
	defaultStallTimeout    = 10 * time.Minute
	defaultSessionHeader   = "x-lmwarden-session-id"
	defaultLogLevel        = "info"
	adminTokenFile         = "admin-token"
)

// LoadConfig reads a configuration file. Its errors name the file, the line and the
// field. Defaults are not filled in: that is [New]'s.
func LoadConfig(path string) (*lmwardenv1.Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be read: %w", err)
	}
	return parseConfig(path, data)
}

// fieldRules lets protoyaml place a broken rule on its line.
type fieldRules struct{}

func (fieldRules) Validate(m proto.Message) error { return face.Validate(m) }

// parseConfig reads a configuration from YAML; path is only for messages.
func parseConfig(path string, data []byte) (*lmwardenv1.Config, error) {
	cfg := &lmwardenv1.Config{}
	if onlyComments(data) {
		return cfg, nil
	}
	words := &face.Words{Path: path}
	options := protoyaml.UnmarshalOptions{Path: path, Validator: fieldRules{}, CustomUnmarshaler: words}
	err := options.Unmarshal(data, cfg)
	if err != nil && strings.HasPrefix(err.Error(), "yaml: ") {
		return nil, fmt.Errorf("%s is no YAML: %s", path, strings.TrimPrefix(err.Error(), "yaml: ")) // its lines are named, the file is not
	}
	if err := errors.Join(append(words.Problems, err)...); err != nil {
		return nil, fmt.Errorf("the configuration is not valid: %w", err)
	}
	if err := errors.Join(checkModels(cfg), checkKeys(cfg)); err != nil {
		return nil, fmt.Errorf("the configuration in %s is not valid: %w", path, err)
	}
	return cfg, nil
}

// CheckConfig reads a configuration file and checks everything that can be checked
// without starting: form, ranges, names, addresses, the rules for addresses that are
// not loopback, and the files that it names. The error joins all problems. Notes are
// what a daemon starts with and a person may not have meant.
func CheckConfig(path string) (notes []string, err error) {
	cfg, err := LoadConfig(path)
	if err != nil {
		return nil, err
	}
	if name := cfg.GetDefaultModel(); name != "" && !declares(cfg, name) {
		notes = append(notes, fmt.Sprintf("default_model: no model in this file has the name %q; until one is made with \"lmwarden model add\", requests that name no model are refused", name))
	}
	cfg = withDefaults(cfg)
	keyNotes, keys := checkKeysFile(cfg)
	tlsNotes, certificates := checkCertificates(cfg)
	notes = slices.Concat(notes, keyNotes, tlsNotes)
	return notes, errors.Join(checkListeners(cfg), checkInferenceAccess(cfg), checkCommand(cfg), keys, certificates)
}

// checkKeysFile reads the file of keys, if there is one.
func checkKeysFile(cfg *lmwardenv1.Config) (notes []string, err error) {
	var keys map[string]string
	if file := cfg.GetInferenceAuth().GetKeysFile(); file != "" {
		if keys, err = auth.ReadKeys(file); errors.Is(err, fs.ErrPermission) {
			return []string{fmt.Sprintf("inference_auth.keys_file: %s cannot be read by this user; the daemon's user must", file)}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return unusedKeys(cfg, keys), nil
}

// declares says whether a declared model goes by a name, also as an alias.
func declares(cfg *lmwardenv1.Config, name string) bool {
	return slices.ContainsFunc(cfg.GetModels(), func(m *lmwardenv1.DeclaredModel) bool {
		return m.GetName() == name || slices.ContainsFunc(m.GetSpec().GetAliases(), func(alias string) bool {
			beginning, star := strings.CutSuffix(alias, "*")
			return alias == name || star && strings.HasPrefix(name, beginning)
		})
	})
}

// checkListeners says whether both addresses can be listened on, one beside the other.
// The configuration has its defaults.
func checkListeners(cfg *lmwardenv1.Config) error {
	inference, admin := cfg.GetInferenceListen(), cfg.GetAdminListen()
	if err := errors.Join(checkAddress("inference_listen", inference), checkAddress("admin_listen", admin)); err != nil {
		return err
	}
	if collide(inference, admin) {
		return fmt.Errorf("inference_listen %s and admin_listen %s are one address; give one of them another port", inference, admin)
	}
	return nil
}

// collide says whether two addresses cannot both be listened on.
func collide(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	every := func(host string) bool {
		ip := net.ParseIP(host)
		return host == "" || ip != nil && ip.IsUnspecified()
	}
	if hostA == "localhost" || hostB == "localhost" {
		hostA, hostB = strings.Replace(hostA, "localhost", "127.0.0.1", 1), strings.Replace(hostB, "localhost", "127.0.0.1", 1)
	}
	return hostA == hostB || every(hostA) || every(hostB)
}

// checkCommand refuses a command line that was written as one word.
func checkCommand(cfg *lmwardenv1.Config) error {
	command := cfg.GetEngine().GetCommand()
	if len(command) != 1 || !strings.ContainsAny(command[0], " \t") {
		return nil
	}
	if _, err := exec.LookPath(command[0]); err == nil {
		return nil // a path may have a space in it
	}
	return fmt.Errorf("engine.command: %q is one word and no program; write each word on its own: engine.command: [%s] in the file, or --engine-command once for each",
		command[0], strings.Join(strings.Fields(command[0]), ", "))
}

// onlyComments says whether a YAML document holds nothing; protoyaml wants a map.
func onlyComments(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line != "" && line != "---" && !strings.HasPrefix(line, "#") {
			return false
		}
	}
	return true
}

// checkModels returns what is wrong with the declared models and where they conflict.
// Default_model is not checked: it may be made through the API later.
func checkModels(cfg *lmwardenv1.Config) error {
	var problems []error
	owners := make(map[string]string)
	names := make(map[string]bool)
	for _, m := range cfg.GetModels() {
		if names[m.GetName()] {
			problems = append(problems, fmt.Errorf("models: %q is declared twice; remove one or rename it", m.GetName()))
		}
		names[m.GetName()] = true
		for _, name := range append([]string{m.GetName()}, m.GetSpec().GetAliases()...) {
			if owner, taken := owners[name]; taken && owner != m.GetName() {
				problems = append(problems, fmt.Errorf("models: the name %q of model %q is also one of model %q; remove it from one of them", name, m.GetName(), owner))
			}
			owners[name] = m.GetName()
		}
		if err := checkSpec(m.GetSpec()); err != nil {
			problems = append(problems, fmt.Errorf("models: %s: %w", m.GetName(), err))
		}
	}
	return errors.Join(problems...)
}

// withDefaults returns a copy with every absent value filled in: the one place that
// knows the defaults of the configuration.
func withDefaults(cfg *lmwardenv1.Config) *lmwardenv1.Config {
	if cfg == nil {
		cfg = &lmwardenv1.Config{}
	}
	c := proto.CloneOf(cfg)
	c.InferenceListen = or(c.GetInferenceListen(), defaultInferenceListen)
	c.AdminListen = or(c.GetAdminListen(), defaultAdminListen)
	c.DataDir = or(c.GetDataDir(), defaultDataDir())
	c.LogLevel = or(c.GetLogLevel(), defaultLogLevel)
	c.SessionHeader = or(c.GetSessionHeader(), defaultSessionHeader)
	if c.MaxBodyBytes == nil {
		c.MaxBodyBytes = proto.Uint64(defaultMaxBodyBytes)
	}
	if c.Engine == nil {
		c.Engine = &lmwardenv1.EngineConfig{}
	}
	e := c.GetEngine()
	if len(e.GetCommand()) == 0 {
		e.Command = []string{"vllm"}
	}
	if e.PortBase == nil {
		e.PortBase = proto.Uint32(defaultPortBase)
	}
	if e.DrainTimeout == nil {
		e.DrainTimeout = durationpb.New(defaultDrainTimeout)
	}
	if e.StallTimeout == nil {
		e.StallTimeout = durationpb.New(defaultStallTimeout)
	}
	if e.GetOnExit() == lmwardenv1.EnginesOnExit_ENGINES_ON_EXIT_UNSPECIFIED {
		e.OnExit = lmwardenv1.EnginesOnExit_ENGINES_ON_EXIT_STOP
	}
	return c
}

// defaultDataDir follows systemd's STATE_DIRECTORY, then the XDG base directories.
func defaultDataDir() string {
	if dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); dir != "" {
		return dir
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "lmwarden")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/var/lib"
	}
	return filepath.Join(home, ".local", "state", "lmwarden")
}

// or returns the first text unless it is empty.
func or(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}
