package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"buf.build/go/protoyaml"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
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

func (fieldRules) Validate(m proto.Message) error { return protovalidate.Validate(m) }

// parseConfig reads a configuration from YAML; path is only for messages.
func parseConfig(path string, data []byte) (*lmwardenv1.Config, error) {
	cfg := &lmwardenv1.Config{}
	if onlyComments(data) {
		return cfg, nil
	}
	options := protoyaml.UnmarshalOptions{Path: path, Validator: fieldRules{}}
	if err := options.Unmarshal(data, cfg); err != nil {
		return nil, fmt.Errorf("the configuration is not valid: %w", err)
	}
	if err := checkModels(cfg); err != nil {
		return nil, fmt.Errorf("the configuration in %s is not valid: %w", path, err)
	}
	return cfg, nil
}

// CheckConfig reads a configuration file and checks everything that can be checked
// without starting: form, ranges, names, addresses and the rules for addresses that
// are not loopback. It returns all problems, joined.
func CheckConfig(path string) error {
	cfg, err := LoadConfig(path)
	if err != nil {
		return err
	}
	cfg = withDefaults(cfg)
	return errors.Join(
		checkAddress("inference_listen", cfg.GetInferenceListen()),
		checkAddress("admin_listen", cfg.GetAdminListen()),
		checkInferenceAccess(cfg),
	)
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
