// Package bench is the load that the product is measured with: synthetic
// coding-agent conversations over HTTP, closed loop, against any endpoint that
// speaks Anthropic messages or OpenAI chat completions.
//
// The nouns: a [Load] is the shape of a conversation as data (sizes, turns, gap); a
// [Script] is one conversation of it, the same text for the same seed; a [Client]
// sends one turn and measures it; [Run] keeps a number of slots busy with
// conversations for a time and returns a [Step]; [Ramp] runs steps for each arm and
// each number of sessions.
//
// A slot starts its next turn when the last one ended, so a slow server gets fewer
// requests and not a longer queue. What is still running when a step ends is cut
// and never counted into its throughput.
//
// The package reads answers with a small reader of its own and not with the
// proxy's: it is a witness, and a mistake in the proxy must show as a difference.
package bench
