package server

import (
	"net/http"

	"github.com/rs/zerolog"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/supervisor/gpu"
)

// Options of a [Server]. The zero value is a daemon with every default.
type Options struct {
	// Config is the configuration; nil means an empty one. It is not changed.
	Config *lmwardenv1.Config
	// ConfigFile is the path that Config was read from, for messages; empty when
	// there is none.
	ConfigFile string
	// Version of the daemon, as shown.
	Version string
	// Logger takes the daemon's own log.
	Logger zerolog.Logger
	// Page serves the web page; nil answers 404 on its paths.
	Page http.Handler
	// EngineCommand replaces the configuration's engine command when not empty.
	EngineCommand []string
	// EngineEnv is set for every engine, below the model's own variables.
	EngineEnv map[string]string
	// Simulated says that engines and cards are simulated; only shown.
	Simulated bool
	// Cards reads the cards of the box; nil means NVML. Without effect with NoGPU.
	Cards gpu.Reader
	// NoGPU leaves the cards alone: none is read, none is assigned.
	NoGPU bool
	// MoveCorruptAside lets a database that cannot be read be renamed and a new one
	// be made. Without it such a database stops the start.
	MoveCorruptAside bool
}
