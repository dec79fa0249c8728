// Package run plays a load of conversations against a simulated box in virtual time:
// minutes of traffic in milliseconds.
//
// Three pure parts meet here, all driven by one clock: the clients of a [load.Load] or
// a [load.Trace], the router of package route, which is the one that the live proxy
// uses, and one [engine.Engine] for each replica. [Run] moves the clock from event to
// event. The same [Config] gives the same [Result], down to the last digit.
//
// A client is a slot of a closed loop: it sends a turn, waits for the whole answer,
// pauses, and sends the next. After the last turn of a conversation it begins
// another. Each turn sends the whole history back. A conversation may begin subagents;
// it goes on when they have ended.
//
// A [Scenario] is a named load on the box that it is meant for, a [Policy] is a named
// way of finding replicas.
package run
