package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// streams is what a verb reads and writes; a test gives its own.
type streams struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	// self is how the program was called: "bin/lmwarden"; empty means "lmwarden".
	self string
}

// app holds what all verbs share: the streams and the flags of the root.
type app struct {
	streams
	addr   string
	token  string
	output string
	// self is how this program was called, for what it says to type.
	self string
	// parsed is set when flags and arguments were understood; an error before that is
	// one of usage.
	parsed bool
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, s streams, args []string) int {
	if _, ok := s.err.(*os.File); !ok {
		// The daemon's log and the verb's own words go there at the same time. A file
		// takes that, and must stay one: whether it is a terminal is asked of it.
		s.err = zerolog.SyncWriter(s.err)
	}
	a := &app{streams: s, self: or(s.self, "lmwarden")}
	root := a.newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	err = a.sentence(err)
	if !a.parsed {
		err = usageErrorf("%w; see \"lmwarden help\"", err)
	}
	fmt.Fprintf(a.err, "lmwarden: %v\n", err)
	return exitCode(err)
}

// newRoot builds the whole tree of verbs.
func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "lmwarden",
		Short:         "A model server for coding agents that sends each turn where its cache is",
		Long:          "LM Warden owns the vLLM processes of a box and sends each turn of a conversation\nto the replica that still holds its cache.\n\n" + plainHelp + "\n\n" + exitHelp,
		Args:          noSuchVerb,
		RunE:          printHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			a.parsed = true
			// Not the flag's default: the help would print the token.
			a.token = or(a.token, a.getenv("LMWARDEN_TOKEN"))
			return a.checkOutput()
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagError(err) })
	root.SetHelpCommand(helpCommand())

	flags := root.PersistentFlags()
	flags.StringVar(&a.addr, "addr", or(a.getenv("LMWARDEN_ADDR"), defaultAddr), "address of the daemon's admin API; also LMWARDEN_ADDR")
	flags.StringVar(&a.token, "token", "", "admin token of the daemon; better set LMWARDEN_TOKEN")
	flags.StringVarP(&a.output, "output", "o", outputTable, "form of the answer: table, wide, json or yaml")

	root.AddGroup(
		&cobra.Group{ID: groupDaemon, Title: "Run:"},
		&cobra.Group{ID: groupClient, Title: "Ask and change a running daemon:"},
	)
	wrapFlags(root, a.columns())
	inGroup(root, groupDaemon, a.serveCommand(), a.demoCommand(), a.benchCommand(), a.simulateCommand(), a.configCommand())
	inGroup(root, groupClient,
		a.modelCommand(), a.replicaCommand(), a.routingCommand(), a.compareCommand(), a.conversationCommand(),
		a.gpuCommand(), a.statsCommand(), a.requestCommand(), a.keyCommand(), a.eventsCommand(),
		a.doctorCommand(), a.backupCommand(), a.connectCommand(), a.apiCommand())
	root.AddCommand(a.versionCommand(), newDocsCommand())
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			c.Args, c.RunE = noSuchVerb, printHelp
		}
	}
	return root
}

// plainHelp names the verbs that have one form only.
const plainHelp = "backup, completion, connect, help and serve print plain text whatever --output says;\napi prints JSON, and bench proxy prints JSON as its last line."

// Widths of the help, in columns.
const (
	helpColumns     = 100 // where standard output is no terminal
	leastColumns    = 60
	mostHelpColumns = 110
)

// columns is how wide the help may be.
func (a *app) columns() int {
	f, ok := a.out.(*os.File)
	if !ok {
		return helpColumns
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return helpColumns
	}
	return min(max(width, leastColumns), mostHelpColumns)
}

// wrapFlags breaks the descriptions of flags so that they end within the columns.
func wrapFlags(root *cobra.Command, columns int) {
	wrapped := fmt.Sprintf("Flags.FlagUsagesWrapped %d ", columns)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", wrapped))
}

const (
	groupDaemon = "daemon"
	groupClient = "client"
)

func inGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = group
		root.AddCommand(c)
	}
}

// parent makes a command that only holds others; alone it prints its help.
func parent(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: noSuchVerb, RunE: printHelp}
	c.AddCommand(children...)
	return c
}

// helpCommand prints the help of a verb, and refuses what is none.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [VERB]",
		Short: "Print the help of a verb",
		RunE: func(c *cobra.Command, args []string) error {
			verb, rest, err := c.Root().Find(args)
			if err == nil {
				err = noSuchVerb(verb, rest)
			}
			if err != nil {
				return usageErrorf("%w", err)
			}
			return verb.Help()
		},
	}
}

// goErrors are how Go's own parsers begin and what a person would say.
var goErrors = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": (invalid syntax|value out of range)`)

// flagError says what is wrong with the value of a flag without Go's own words.
func flagError(err error) error {
	text := goErrors.ReplaceAllStringFunc(err.Error(), func(found string) string {
		if strings.HasSuffix(found, "out of range") {
			return "it is too large"
		}
		return "it is not a number of the kind that is wanted"
	})
	if text == err.Error() {
		return err
	}
	return errors.New(text)
}

func printHelp(c *cobra.Command, _ []string) error { return c.Help() }

// noSuchVerb refuses arguments of a command that only holds others.
func noSuchVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("%q is not a verb of %s; did you mean %s?", args[0], c.CommandPath(), strings.Join(near, ", "))
	}
	var verbs []string
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			verbs = append(verbs, child.Name())
		}
	}
	return fmt.Errorf("%q is not a verb of %s; choose from %s", args[0], c.CommandPath(), strings.Join(verbs, ", "))
}

// arguments asks for exactly the named arguments.
func arguments(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(args) > len(names) {
			return fmt.Errorf("%q is one argument too many: %s", args[len(names)], c.UseLine())
		}
		return fmt.Errorf("%s is missing: %s", names[len(args)], c.UseLine())
	}
}

// colour says whether w is a terminal whose user did not refuse colours.
func (a *app) colour() bool {
	return a.getenv("NO_COLOR") == "" && isTerminal(a.out)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// or returns the first text unless it is empty.
func or(text, otherwise string) string {
	if text != "" {
		return text
	}
	return otherwise
}
