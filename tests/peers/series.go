package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lmwarden/lmwarden/bench"
	"github.com/lmwarden/lmwarden/bench/report"
	"github.com/lmwarden/lmwarden/sim/engine"
)

// series is one comparison under way.
type series struct {
	settings
	box      box
	engines  *engines
	client   *bench.Client
	ledger   *report.Ledger
	progress io.Writer
	versions map[string]string // of arms, by name
	commands map[string]string // of arms, by name
	problems []string          // sentences about arms that could not be measured
}

// run does all of it. A series that is interrupted still prints what it has.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	set, err := readSettings(args, stderr)
	if err != nil {
		return err
	}
	if set.binary, err = filepath.Abs(set.binary); err != nil {
		return fmt.Errorf("find our program: %w", err)
	}
	dir, err := os.MkdirTemp("", "lmwarden-peers-")
	if err != nil {
		return fmt.Errorf("make a folder for the logs: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	addresses, err := freeAddresses(set.Replicas + 2)
	if err != nil {
		return err
	}
	s := &series{
		settings: set, progress: stderr, versions: map[string]string{}, commands: map[string]string{},
		engines: &engines{binary: set.binary, preset: set.Preset, speed: set.Speed, dir: dir, addresses: addresses[2:]},
	}
	defer s.engines.stop()
	s.box = box{
		front: addresses[0], admin: addresses[1], urls: s.engines.urls(), dir: dir, binary: set.binary, peers: set.peers,
		speed: set.Speed,
	}
	if s.box.preset, err = engine.FindPreset(set.Preset); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	err = s.all(ctx)
	text := s.table(err != nil) + s.verdict()
	if s.virtual && err == nil {
		both, failed := s.beside(ctx)
		text, err = text+both, failed
	}
	fmt.Fprint(stdout, text)
	if len(s.ledger.All()) > 0 && set.out != "" && err == nil {
		err = replaceMarked(set.out, text)
	}
	return err
}

// prepare finds out which arms can be run, and measures how long the engines' tokens
// are.
func (s *series) prepare(ctx context.Context) error {
	s.arms = slices.DeleteFunc(slices.Clone(s.arms), func(a arm) bool {
		err := s.introduce(ctx, a)
		if err != nil {
			s.problem("%s is left out: %v", a.name, err)
		}
		return err != nil
	})
	if len(s.arms) == 0 {
		return fmt.Errorf("none of the routers can be run; %s", strings.Join(s.problems, "; "))
	}
	if err := s.engines.restart(ctx); err != nil {
		return err
	}
	s.client = &bench.Client{
		BaseURL: s.box.urls[0], Model: served, API: bench.Chat, HTTP: bench.NewHTTPClient(slices.Max(s.Steps)),
	}
	ratio, err := s.client.Calibrate(ctx, s.Seed)
	if err != nil {
		return fmt.Errorf("the simulated engine cannot be measured: %w", err)
	}
	s.Load.BytesPerToken = ratio
	if s.ledger, err = report.OpenLedger(s.keep, s.settings); err != nil {
		return err
	}
	s.client.BaseURL = "http://" + s.box.front
	return nil
}

// introduce finds out whether an arm can be run, its version and its command line.
func (s *series) introduce(ctx context.Context, a arm) error {
	if _, err := exec.LookPath(a.program(s.box)); err != nil {
		return fmt.Errorf("it is not installed: %w", err)
	}
	s.versions[a.name] = a.version
	if a.ask != nil {
		args := a.ask(s.box)
		said, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("it does not tell its version: %w", err)
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
		s.versions[a.name] = strings.TrimPrefix(first, "nginx version: ")
	}
	b, remove, err := s.place()
	if err != nil {
		return err
	}
	defer remove()
	args, err := a.command(b)
	s.commands[a.name] = s.plain(b, args)
	return err
}

// place returns the box with an empty folder for a router, and what removes that.
func (s *series) place() (box, func(), error) {
	b := s.box
	var err error
	if b.dir, err = os.MkdirTemp(s.box.dir, "router-"); err != nil {
		return b, nil, fmt.Errorf("make a folder for the router: %w", err)
	}
	return b, func() { _ = os.RemoveAll(b.dir) }, nil
}

// all runs each step of each round through every arm. One that fails is noted, and the
// others go on.
func (s *series) all(ctx context.Context) error {
	for round := range s.Rounds {
		for n, sessions := range s.Steps {
			order := s.starters(round, sessions)
			if (round+n)%2 == 1 {
				slices.Reverse(order)
			}
			for _, a := range order {
				if _, done := s.ledger.Find(a.name, sessions, round+1); done {
					continue
				}
				fmt.Fprintf(s.progress, "round %d, %d sessions, %s ...\n", round+1, sessions, a.name)
				err := s.one(ctx, a, sessions, round+1)
				if ctx.Err() != nil {
					return errors.New("interrupted; what was measured is above")
				}
				if err != nil {
					s.problem("%s, %d sessions, round %d: %v", a.name, sessions, round+1, err)
				}
			}
		}
	}
	return nil
}

// starters are the arms of a round, from 0. After the first one these are our own and,
// when only finalists are wanted, the peers with the most output at that number of
// sessions.
func (s *series) starters(round, sessions int) []arm {
	if round == 0 || s.Finalists == 0 {
		return slices.Clone(s.arms)
	}
	output := make(map[string]float64)
	var peers []string
	for _, a := range s.arms {
		if r, ok := s.ledger.Find(a.name, sessions, 1); ok && a.policy == "" {
			output[a.name] = *r.OutputTokensPerMinute
			peers = append(peers, a.name)
		}
	}
	slices.SortStableFunc(peers, func(a, b string) int { return cmp.Compare(output[b], output[a]) })
	best := peers[:min(len(peers), s.Finalists)]
	return slices.DeleteFunc(slices.Clone(s.arms), func(a arm) bool { return a.policy == "" && !slices.Contains(best, a.name) })
}

// problem notes a sentence for the table and says it at once.
func (s *series) problem(format string, args ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, args...), s.box.dir, "DIR")
	s.problems = append(s.problems, text)
	fmt.Fprintln(s.progress, " ", text)
}

// settle is how long a router that answers gets to find all of its engines.
const settle = 2 * time.Second

// one runs a step of one arm, with engines and a router that have just started.
func (s *series) one(ctx context.Context, a arm, sessions, round int) error {
	if err := s.engines.restart(ctx); err != nil {
		return err
	}
	b, remove, err := s.place()
	if err != nil {
		return err
	}
	defer remove()
	args, err := a.command(b)
	if err != nil {
		return err
	}
	router, err := start(b.dir, "router", nil, args)
	if err != nil {
		return err
	}
	defer router.stop()
	s.client.HTTP.CloseIdleConnections()
	if err := router.ready(ctx, s.ping); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(settle):
	}
	step, err := bench.Run(ctx, bench.StepOptions{
		Client: s.client, Load: s.Load, Arm: a.name, Sessions: sessions, Duration: s.Duration,
		Seed: s.Seed + uint64(round-1), Salt: strconv.Itoa(round), Busy: s.engines.busy,
	})
	if err != nil {
		return err
	}
	step.Round = round
	if step.Requests == 0 {
		return router.failure(fmt.Errorf("no request of %d was answered: %s", step.Errors+step.Cut, step.FirstError))
	}
	fmt.Fprintf(s.progress, "  %d requests, %d errors, %.0f output tokens a minute\n", step.Requests, step.Errors, step.OutputTokensPerMinute)
	return s.ledger.Add(report.Of(step, s.Seed+uint64(round-1)))
}

// ping asks the router for one token.
func (s *series) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := s.client.Send(ctx, bench.Ask{
		Conversation: "00000000-0000-0000-0000-000000000000", MaxTokens: 1,
		History: []bench.Message{{Role: "user", Text: "hello"}},
	})
	return err
}

// plain is a command line without what differs from machine to machine.
func (s *series) plain(b box, args []string) string {
	words := make([]string, len(args))
	for i, word := range args {
		word = strings.ReplaceAll(word, b.dir, "DIR")
		if filepath.IsAbs(word) {
			word = filepath.Base(word)
		}
		for n, url := range b.urls {
			word = strings.ReplaceAll(word, url, fmt.Sprintf("ENGINE%d", n+1))
		}
		if word == port(b.front) || word == port(b.admin) {
			word = "PORT"
		}
		words[i] = word
	}
	return strings.Join(words, " ")
}

// Marks around the part of a document that the program writes.
const (
	markBegin = "<!-- written by make peers: begin -->\n"
	markEnd   = "<!-- written by make peers: end -->\n"
)

// replaceMarked puts the text between the marks of a document.
func replaceMarked(path, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	before, rest, ok := bytes.Cut(old, []byte(markBegin))
	_, after, ended := bytes.Cut(rest, []byte(markEnd))
	if !ok || !ended {
		return fmt.Errorf("write the table: %s has no lines %q and %q to put it between", path, strings.TrimSpace(markBegin), strings.TrimSpace(markEnd))
	}
	whole := string(before) + markBegin + text + markEnd + string(after)
	if err := os.WriteFile(path, []byte(whole), 0o644); err != nil { //nolint:gosec // a document
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}
