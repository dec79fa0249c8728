package load

import (
	"fmt"
	"strings"
	"time"
)

// Names of the loads that are made for a larger box than the others.
const (
	Farm        = "farm-27b"
	FarmUnequal = "farm-27b-unequal"
)

// Named returns the loads that have a name, in the order in which they are listed.
func Named() []Load {
	return []Load{
		Seed(), unequal(), subagents(), bursts(), endless(), farm(), farmUnequal(),
		thinking("think-exp-5", 32, "exp:5", "seed, with exponential pauses of 5 s on average"),
		thinking("think-exp-30", 32, "exp:30", "seed, with exponential pauses of 30 s on average, longer than a cache is worth keeping"),
		thinking("think-uniform", 32, "uniform:1-20", "seed, with pauses evenly between 1 and 20 s"),
		thinking("think-mix", 40, "mix", "seed, with mostly short pauses and some of a person who reads"),
	}
}

// Find returns a load by its name, or an error that lists the names.
func Find(name string) (Load, error) {
	var names []string
	for _, l := range Named() {
		if l.Name == name {
			return l, nil
		}
		names = append(names, l.Name)
	}
	return Load{}, fmt.Errorf("there is no load %q; choose one of %s", name, strings.Join(names, ", "))
}

// unequal mixes conversations of a few thousand tokens with those that fill half a
// small card.
func unequal() Load {
	l := Seed()
	l.Name, l.About = "unequal", "seed, with first messages from 1k to 24k tokens, many small and few large"
	l.First = Size{Min: 1000, Max: 24000, Log: true}
	return l
}

// subagents begins a flight of three after each second turn.
func subagents() Load {
	l := Seed()
	l.Name, l.About = "subagents", "seed at 8 sessions, each with three subagents of four turns after its second and fourth turn"
	l.Sessions = 8
	agent := Seed()
	agent.Name, agent.About, agent.Sessions = "subagent", "", 1
	agent.SharedTokens, agent.First, agent.Turns = 2500, Size{Min: 800, Max: 2400, Log: true}, 4
	l.Agents = &Agents{Every: 2, Count: 3, Load: agent}
	return l
}

// bursts is a team whose agents are started together, as a scheduler does.
func bursts() Load {
	l := Seed()
	l.Name, l.About = "bursts", "seed, with conversations that begin together, every 2 minutes"
	l.StartEvery = 2 * time.Minute
	return l
}

// endless never ends a conversation: at the context's limit it is summarised.
func endless() Load {
	l := Seed()
	l.Name, l.About = "endless", "one conversation a slot without an end, summarised to 4k tokens at 30k of context"
	l.Sessions, l.Turns, l.MaxContext, l.SummaryTokens = 8, 0, 30_000, 4000
	return l
}

// farm is seven cards with a 27B model and headless agents whose contexts grow from
// 33k to 87k tokens, about 58k on average over all turns; their tools take their time.
func farm() Load {
	l := Seed()
	l.Name, l.About = Farm, "26 headless agents of about 58k tokens each, 24 turns, tools of 8 s on average; for seven cards with a 27B model"
	l.Sessions, l.Turns, l.TurnTokens = 26, 24, 2000
	l.First = Size{Min: 26_000, Max: 32_000}
	l.Think = Think{kind: thinkExp, from: 8}
	return l
}

// farmUnequal is farm with tasks of all sizes: contexts from 9k to 117k tokens.
func farmUnequal() Load {
	l := farm()
	l.Name, l.About = FarmUnequal, "farm-27b, with first messages from 5k to 60k tokens, many small and few large"
	l.First = Size{Min: 5000, Max: 60_000, Log: true}
	return l
}

// thinking is the seed's load with another pause.
func thinking(name string, sessions int, think, about string) Load {
	l := Seed()
	l.Name, l.About, l.Sessions = name, about, sessions
	l.Think, _ = ParseThink(think) // of this file: a test reads them all
	return l
}
