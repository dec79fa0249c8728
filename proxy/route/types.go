package route

import "time"

// Key names a conversation or a group: 128 bits of a hash over tenant, model and
// the client's own id. The zero Key means "none".
type Key [16]byte

// Class says why a request went where it went. Each forwarded request has exactly one.
type Class uint8

// The decision classes.
const (
	ClassNone         Class = iota
	ClassPlaced             // first turn of a conversation: the policy chose a home
	ClassSticky             // went to its home
	ClassSpilled            // home was past the threshold; this request went elsewhere, home is kept
	ClassRehomed            // home is gone, draining or a new incarnation; a new home was chosen
	ClassClientPinned       // the client named the replica
	ClassUnkeyed            // no conversation could be told
	ClassSide               // a side call of a known group; makes, moves and refreshes no pin
	ClassOff                // affinity is off
	NumClasses              // number of classes, for arrays indexed by Class
)

// Kind is what a request is within its client's session.
type Kind uint8

// The kinds of request.
const (
	KindMain  Kind = iota // a turn of a main conversation
	KindAgent             // a turn of a subagent's conversation
	KindSide              // a title, probe, token count or classifier
)

// SpillRule says how a request chooses whether to leave its home.
type SpillRule uint8

// The spill rules.
const (
	SpillCount  SpillRule = iota // at the threshold, when another has fewer in flight
	SpillPriced                  // when the wait at home costs more than a new prefill elsewhere
)

// Admission says what may be let in at once.
type Admission uint8

// The admission rules.
const (
	AdmissionNone       Admission = iota // every request is forwarded at once
	AdmissionWorkingSet                  // only what the caches can hold; the rest waits in order and is placed by cost, not by Policy
)

// Policy says how a new conversation gets its home.
type Policy uint8

// The placement policies.
const (
	PolicyLeastLoaded Policy = iota // lowest score of in flight, cache fill and live conversations
	PolicyHash                      // rendezvous hash of the key, blind to load
	PolicyRoundRobin                // one after the other
	PolicyRandom                    // seeded
)

// Settings of a model's router. All change live. A life or a bound of 0 means its
// default: no setting switches stickiness off but Affinity.
type Settings struct {
	Affinity         bool
	SpillThreshold   int // requests in flight; 0 means auto: max(1, MaxNumSeqs/4)
	Spill            SpillRule
	Admission        Admission
	Policy           Policy
	ClientPinning    bool
	IdleMain         time.Duration // life of an idle main conversation
	IdleAgent        time.Duration // life of an idle subagent's conversation
	MaxConversations int           // bound of the table; live ones are never evicted
	MaxHold          time.Duration // longest wait at the door
	MaxQueue         int           // most requests that wait at the door
}

// DefaultSettings returns the settings of a model that states none.
func DefaultSettings() Settings {
	return Settings{
		Affinity:         true,
		ClientPinning:    true,
		IdleMain:         4 * time.Hour,
		IdleAgent:        10 * time.Minute,
		MaxConversations: 65536,
		MaxHold:          300 * time.Second,
		MaxQueue:         1024,
	}
}

// Replica is what the core is told about one replica; its index is its place in
// the slice handed to [Core.SetReplicas].
type Replica struct {
	Incarnation        uint64 // number of its present life; a change empties its cache
	Ready              bool   // takes requests
	Draining           bool   // finishes what it has, gets nothing new
	Avoid              bool   // keeps its conversations, is nobody's new home while others can be
	Capacity           int64  // KV tokens it can hold; 0 when not known
	MaxModelLen        int64  // most tokens of a prompt and its answer; 0 when not known
	MaxNumSeqs         int    // sequences computed at once; 0 when not known
	MaxBatchedTokens   int    // tokens of one step; 0 when not known (2,048 is assumed)
	MetricsUnavailable bool   // its engine's figures are older than 10 s; nothing is held when all are
}

// Request is one arriving request.
type Request struct {
	Key    Key  // its conversation; zero when the client named none
	Group  Key  // its group, or zero
	Parent Key  // conversation that spawned it, or zero
	Kind   Kind // turn, subagent's turn or side call

	// Chain holds one hash per message of the prompt, each over all before it; the
	// system text counts as the first. It tells conversations of clients that send no
	// id. The core keeps hashes of it, never the slice. ChainFirst is the smallest
	// index whose prefix contains a user message.
	Chain      []uint64
	ChainFirst int

	Rank        int    // replica that the client named, or -1
	Patient     bool   // waits at the door when no replica is ready, for one is expected back
	Bound       bool   // replica Rank alone can answer, whatever the settings say: it holds what the request continues
	PromptBytes int    // size of the prompt part of the body, in bytes
	SharedHash  uint64 // hash of system text and tools, the part that conversations share
	HashKey     uint64 // seedable hash of the conversation id, for PolicyHash
}

// Ticket names one request inside a core, from Arrive to Done. The zero Ticket is
// none. A ticket that has ended is never valid again.
type Ticket uint64

// Verdict is the answer to an arriving request.
type Verdict uint8

// The verdicts.
const (
	Forward     Verdict = iota // decided: forward it now
	Held                       // waits at the door; the decision comes through Released
	RefusedFull                // the queue is full; no ticket was made
	NoReplica                  // no replica is ready, and the request does not wait for one; no ticket was made
)

// Term is one replica's part in a placement.
type Term struct {
	Replica  int32
	InFlight int32
	Live     int32   // conversations with a request, or expected back: of the working set
	Fill     float64 // resident over capacity, or places over it when admission chose; -1 when a capacity is unknown
	Score    float64 // the lowest wins; seconds that it costs, to it and to others, when admission chose
	Price    float64 // seconds; -1 when not priced
	Eligible bool
}

// Miss says why a prompt was not in the cache.
type Miss uint8

// The causes of a miss.
const (
	MissNone Miss = iota
	MissNew
	MissEvicted
	MissSpilled
	MissRehomed
	MissPrefixChanged
	MissReplicaRestarted
)

// Decision is where a request goes and why.
type Decision struct {
	Replica      int           // index of the replica
	Class        Class         //
	Home         int           // home of the conversation at the time, or -1
	Conversation Key           // conversation told, also from the chain; zero when unkeyed
	Turn         uint64        // number of the turn within its conversation, from 1
	HomeInFlight int           // requests in flight on the home when it decided
	Threshold    int           // spill threshold in force on the home; 0 without a home
	Wait         time.Duration // time spent at the door
	MissExpected Miss          // why the cache is not expected to help
	Trial        uint32        // trial that the conversation takes part in, or 0
	Arm          int           // its arm there, 0 or 1
	Uncached     int           // tokens of the prompt that the replica is expected to compute
	// Terms holds the placement terms per replica, when a placement was made. It is
	// valid until the next call of the core; copy it to keep it.
	Terms []Term

	note     note // what tipped the choice, for Reason
	outgrown bool // the home that it left does not hold the prompt
}

// Release is a held request that may go now.
type Release struct {
	Ticket   Ticket
	Decision Decision
}

// Outcome is how a request ended.
type Outcome struct {
	// Served is true when the replica gave a first byte of a successful answer; the
	// pin is kept then. A request that failed before leaves no pin behind.
	Served bool
	// Whole is true when the answer was not streamed: its first byte came with its last,
	// and tells nothing of how long reading the prompt took.
	Whole bool
	// Prompt, Cached and Completion are the engine's own token counts; -1 when it
	// reported none.
	Prompt, Cached, Completion int
	// Broken is true when somebody has seen that the prompt does not continue the one
	// before of its conversation.
	Broken bool
	// ChainNext is the chain hash after the answer, as the client will echo it; 0 when
	// not known.
	ChainNext uint64
}

// ReplicaView is what the core knows about one replica, for the card.
type ReplicaView struct {
	InFlight   int
	Counts     [NumClasses]uint64
	Resident   int64 // tokens believed to be cached
	Capacity   int64 // 0 when not known
	Closed     bool  // takes no new requests: it is not ready, or draining
	Live       int   // live conversations at home here
	LiveTokens int64 // their tokens, with the shared prompt counted once
	Held       int   // held requests whose home this is

	Active       int   // conversations of its working set, see [View]
	ActiveTokens int64 // what they take of its cache, with the shared prompt counted once

	Free           int64 // tokens left for more places and their growth, while [View.Holding]
	Admitted       int   // conversations with a place here, under working-set admission
	AdmittedTokens int64 // what their places take, with the shared prompt counted once
}

// Learned is what a model's router has learned from its engines and clients.
type Learned struct {
	TokensPerByte Measure       // of prompts; a guess until the first usage
	PrefillRate   Measure       // prompt tokens computed per second, from streamed answers to long prompts
	Growth        Measure       // tokens that a prompt grows from turn to turn
	Output        Measure       // tokens of an answer
	Service       Measure       // seconds from dispatch to the end of an answer
	Gap           Measure       // median of the seconds between turns; the last 200 gaps are remembered
	GapP95        time.Duration // 95th percentile of the same gaps
	Ends          int           // conversations that did not come back, since the oldest of the gaps
	Keep          time.Duration // idle time for which a place is kept while others wait
	Spell         time.Duration // residence before a place may be taken for one that waits
	Linger        time.Duration // idle time for which a conversation is of the working set
	Shared        []SharedView  // prompts that conversations share, most used first; at most 8
}

// Measure is a learned figure with what it rests on.
type Measure struct {
	Value   float64
	Samples int       // 0 when Value is a guess or not known
	At      time.Time // of the last sample; zero without any
}

// SharedView is a prompt that conversations have in common.
type SharedView struct {
	Tokens     int64 // median over the last samples
	Samples    int   // first turns that it was learned from, at most 8
	References int   // conversations and cached prompts that begin with it
}

// HeldView is one request at the door.
type HeldView struct {
	Conversation Key // zero when it has none
	Tokens       int64
	Arrived      time.Time
	Reason       string
}

// View is the state of a core at one moment. Active is what the caches must hold: the
// conversations with a request past the door, and those that are idle for no longer than
// Learned.Linger. Live are those with a turn in the last five minutes.
type View struct {
	Replicas       []ReplicaView
	Counts         [NumClasses]uint64
	InFlight       int
	Held           int
	Waiting        int // conversations that find no room; others of Held wait for a replica, for their homes or behind long prompts
	OldestHeld     time.Time
	Queue          []HeldView // at most 16, in order
	SpillThreshold int        // in force
	SpillAuto      bool
	SharedTokens   int64 // -1 when not known
	Live           int
	Active         int   // conversations of the working sets of all replicas
	Holding        bool  // capacities and figures are known, so requests may be held
	Reserve        int64 // tokens kept free for the growth of each place, while Holding
	Smallest       int64 // tokens of the smallest of Waiting without the shared prompt, 0 when nobody may pass them
	Conversations  int   // in the table
	Learned        Learned
}

// ConversationView is one conversation as the core knows it.
type ConversationView struct {
	Key        Key
	Group      Key
	Home       int // -1 when it has none
	Context    int64
	Resident   int64
	InFlight   int
	Turns      uint64
	LastActive time.Time // end of its last turn; during the first one its arrival
	Agent      bool
	Admitted   bool
	Waits      bool // a request of it is held: at the door, at a gate, for its home or for a replica
	Live       bool
	Active     bool  // of the working set of its home
	Working    int64 // what it takes of its home's cache when active, without the shared prompt
}
