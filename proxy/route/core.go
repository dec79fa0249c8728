package route

import "time"

// Core is the router of one model. It is not safe for concurrent use.
type Core struct{}

// New returns a core without replicas. Seed drives every random choice.
func New(s Settings, seed uint64) *Core { panic("") }

// SetSettings changes the settings live.
func (c *Core) SetSettings(now time.Time, s Settings) { panic("") }

// SetReplicas tells the core which replicas there are. Conversations whose home is
// gone or has a new incarnation are rehomed at their next turn; held requests and
// requests without a first byte go back into the queue through [Core.Reroute].
func (c *Core) SetReplicas(now time.Time, rs []Replica) { panic("") }

// Arrive decides a request or holds it. With Forward, d is filled and a
// reservation is held on d.Replica until Done. With Held, the decision comes
// through Released. With RefusedFull and NoReplica there is no ticket.
func (c *Core) Arrive(now time.Time, r *Request, d *Decision) (Ticket, Verdict) { panic("") }

// FirstByte says that the replica gave the first byte of an answer.
func (c *Core) FirstByte(now time.Time, t Ticket) { panic("") }

// Reroute gives a forwarded request that got no first byte another replica than
// those it tried. The old reservation moves; the decision is filled. False means
// that no other replica is ready and the reservation is unchanged.
func (c *Core) Reroute(now time.Time, t Ticket, d *Decision) bool { panic("") }

// Done ends a ticket, held or forwarded, and gives its reservation back. It returns
// why the prompt was not in the cache. Ending a ticket twice is a no-op.
func (c *Core) Done(now time.Time, t Ticket, o Outcome) Miss { panic("") }

// Tick lets time pass for what waits and what idles. Call it 10 times a second
// while anyone waits, else once a second.
func (c *Core) Tick(now time.Time) { panic("") }

// Released returns the held requests that may go now, and forgets them. The slice
// is valid until the next call. Look after every other call.
func (c *Core) Released() []Release { panic("") }

// View returns the state for the card.
func (c *Core) View(now time.Time) View { panic("") }

// Conversations calls f for each conversation, latest active first, until f
// returns false.
func (c *Core) Conversations(now time.Time, f func(ConversationView) bool) { panic("") }

// Move gives a conversation another home. False means that it is not known or the
// replica does not exist.
func (c *Core) Move(now time.Time, k Key, replica int) bool { panic("") }

// Forget drops a conversation. False means that it is not known.
func (c *Core) Forget(k Key) bool { panic("") }
