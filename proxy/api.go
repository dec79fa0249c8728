package proxy

import (
	"time"

	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/proxy/wire"
)

// ReplicaID names a replica across snapshots: "qwen3-4b/2".
type ReplicaID string

// Snapshot is everything the hot path needs to know; it is never changed once
// applied.
type Snapshot struct {
	Models       []Model
	DefaultModel string // serves requests that name no known model; empty refuses them
	// Keys accepted from clients, each with the stable name of its tenant. Empty
	// means that no key is asked for.
	Keys map[string]string
	// TenantLimits bounds what the keys of a tenant take together, by the name of the
	// tenant; without any keys that is "". Tenants that it lacks have no limits.
	TenantLimits map[string]Limits
}

// Model is one model as the hot path sees it.
type Model struct {
	Name        string
	Aliases     []string // exact names, or a beginning with * at the end
	MaxModelLen int      // tokens; 0 when not known
	Created     time.Time
	Routing     route.Settings
	Limits      Limits
	// StripAttribution takes Claude Code's attribution block out of requests, for engines
	// that hash it into their prefix cache.
	StripAttribution bool
	// IgnoresAttribution says that the engines leave it out by themselves.
	IgnoresAttribution bool
	// Identity says which sources of a conversation's key count beyond those that always
	// do. Its Header is not used: that is Options.SessionHeader.
	Identity wire.Options
	Replicas []Replica // by index
	// State says, for a person, why no replica is ready: "starting: loading weights".
	State string
	// NextStart is when the next start of an engine is due after a failure; zero when none
	// is.
	NextStart time.Time
	// Halted says that State stays as it is until a person acts: the model is stopped or
	// none of its engines starts. A client is then not told to try again.
	Halted bool
}

// Limits bound what a tenant or a model takes; what is over them is answered 429 with
// Retry-After. The zero value of each field is no limit. All change live.
type Limits struct {
	// Concurrent is how many requests may be open at once, with those that wait at the
	// door.
	Concurrent int
	// RequestsPerMinute is how many requests may come in a minute; as many may come at
	// once after a minute without any.
	RequestsPerMinute int
	// TokensPerMinute is how many tokens engines may compute in a minute: of a prompt what
	// was not cached, and the answer. They are counted when an answer ends, as the engine
	// reports them; then nothing is let in until the minutes have paid for them.
	TokensPerMinute int
	// BodyBytes is the longest request body, in bytes, below that of all; a longer one is
	// answered 413.
	BodyBytes int64
	// MaxTokens is the longest answer, in tokens. A request that asks for more, or states
	// no bound of its own, is sent to the engine with this one.
	MaxTokens int
}

// Replica is one upstream engine.
type Replica struct {
	ID     ReplicaID
	URL    string // base URL, without path
	APIKey string // key of the engine, or empty
	// Rank is the data-parallel rank to ask for in X-data-parallel-rank, or -1 when
	// the replica is a process of its own.
	Rank  int
	Route route.Replica
}

// Recorder takes finished requests. Record must never block: it drops and counts
// when its buffer is full.
type Recorder interface {
	Record(Record)
}

// Record is one finished request. It never holds content.
type Record struct {
	ID             string // value of the response header x-lmwarden-request
	Arrived        time.Time
	Model          string // name of the model that served it
	RequestedModel string
	Path           string // one of the known API paths
	Client         string // first product of the user agent
	KeySource      string // where the conversation key came from
	Group          route.Key
	Streamed       bool
	Status         int // sent to the client, or what befell a stream after its headers; 499 when it left first
	Error          string
	Attempts       int
	Decision       route.Decision // Terms are the record's own copy
	Decided        bool           // false when no replica was chosen
	Miss           route.Miss
	FirstToken     time.Duration // since arrival; 0 when none came
	Duration       time.Duration // since arrival
	// Token counts of the engine; -1 when it reported none.
	Prompt, Cached, Completion int
}
