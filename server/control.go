package server

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
	"github.com/lmwarden/lmwarden/proxy"
	"github.com/lmwarden/lmwarden/proxy/route"
	"github.com/lmwarden/lmwarden/server/stats"
	"github.com/lmwarden/lmwarden/supervisor"
	"github.com/lmwarden/lmwarden/supervisor/gpu"
	"github.com/lmwarden/lmwarden/supervisor/layout"
)

// dataPlane is the part of the proxy that the control plane drives. All methods are
// safe for concurrent use; none but Drain blocks.
type dataPlane interface {
	// Apply replaces what is known of models and replicas.
	Apply(*proxy.Snapshot)
	// View returns the state of a model's router; false for a model that it does not
	// know.
	View(model string) (route.View, bool)
	// Conversations calls f for each conversation, latest active first, until f
	// returns false. f must be quick and must not call the proxy.
	Conversations(model string, f func(route.ConversationView) bool) bool
	// Compare begins a trial of two settings on a model, or ends the one that runs when
	// the trial is nil.
	Compare(model string, t *route.Trial) error
	// PrefixBreaks returns what was seen of clients whose prompts do not continue the ones
	// before.
	PrefixBreaks(model string) []proxy.PrefixBreaks
	// Move and Forget change a conversation's home.
	Move(model string, key route.Key, replica int) error
	Forget(model string, key route.Key) error
	// Drain takes a replica out of rotation and waits until it is idle or ctx ends,
	// when it cuts what is left.
	Drain(ctx context.Context, id proxy.ReplicaID) (cut int, err error)
	// InFlight returns the number of requests that a replica has; 0 when it is not known.
	InFlight(id proxy.ReplicaID) int
}

// engines is the part of the supervisor that the control plane drives. All methods
// are safe for concurrent use.
type engines interface {
	// Apply makes the replicas be what specs say; it does not wait for it.
	Apply(specs []supervisor.Spec)
	// Restart ends a replica's engine and starts it again; it does not wait for it.
	Restart(id supervisor.ReplicaID) error
	// Status returns every replica, by model and index, those that still stop among
	// them.
	Status() []supervisor.Status
	// Logs calls yield with the lines of a log, oldest first.
	Logs(ctx context.Context, id supervisor.ReplicaID, q supervisor.LogQuery, yield func([]supervisor.LogLine) error) error
	// WaitStopped returns when no process of a model is left.
	WaitStopped(ctx context.Context, model string) error
}

var (
	_ dataPlane = (*proxy.Proxy)(nil)
	_ engines   = (*supervisor.Supervisor)(nil)
)

// control is what the handlers of the API share. Its fields are immutable; what they
// point at is safe for concurrent use.
type control struct {
	info        *lmwardenv1.Info
	cfg         *lmwardenv1.Config // with defaults
	access      access
	log         zerolog.Logger
	models      *catalog
	limits      *keyLimits
	plane       dataPlane
	engines     engines
	cards       *cards
	stats       *stats.Collector
	events      *stats.Events
	loop        *reconciler
	drained     *drained
	comparisons *comparisons
	now         func() time.Time
}

// cards reads the cards of the box.
type cards struct {
	reader gpu.Reader
	// none says why no card is read, or is empty.
	none string
}

// cardsTimeout is how long a driver that hangs is waited for.
const cardsTimeout = 2 * time.Second

// deck returns the cards as the layout wants them.
func (c *cards) deck(ctx context.Context) deck {
	inventory, none := c.read(ctx)
	if none != "" {
		return deck{none: none}
	}
	all := make([]layout.Card, len(inventory.Devices))
	for i, d := range inventory.Devices {
		all[i] = layout.Card{UUID: d.UUID, Name: d.Name, Message: d.Message}
	}
	return deck{all: all}
}

// read returns the cards, or a sentence that says why there are none.
func (c *cards) read(ctx context.Context) (gpu.Inventory, string) {
	if c.none != "" {
		return gpu.Inventory{}, c.none
	}
	ctx, cancel := context.WithTimeout(ctx, cardsTimeout)
	defer cancel()
	inv, err := c.reader.Read(ctx)
	if err != nil {
		return gpu.Inventory{}, err.Error()
	}
	if len(inv.Devices) == 0 {
		return inv, "the driver reports no card"
	}
	return inv, ""
}
