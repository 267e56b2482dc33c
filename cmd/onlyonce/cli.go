package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// Exit statuses, as scripts see them.
const (
	exitOK     = 0
	exitFailed = 1 // it was tried and went wrong, or a check found something
	exitUsage  = 2 // a flag or the configuration is refused; nothing was tried
)

// program is what every subcommand is given: the outside world.
type program struct {
	ctx    context.Context
	env    func(string) (string, bool)
	stdout io.Writer
	stderr io.Writer
}

// commands is the whole command line.
type commands struct {
	Help helpFlag `short:"h" help:"Show this help, with an example."`

	Serve serveCmd `cmd:"" group:"run" help:"Serve payments over HTTP."`

	Demo    demoCmd    `cmd:"" group:"run" help:"Crash a server and lose its answers: one charge each. 15 seconds."`
	Sandbox sandboxCmd `cmd:"" group:"run" help:"Run the sandbox provider as a process of its own."`

	Keys     keysCmd     `cmd:"" group:"look" help:"Look at idempotency keys."`
	Payments paymentsCmd `cmd:"" group:"look" help:"Look at payments."`
	Scenario scenarioCmd `cmd:"" group:"look" help:"Play stories of two sessions on a real database, step by step."`

	Accounts accountsCmd `cmd:"" group:"operate" help:"Manage accounts and their API keys."`
	Migrate  migrateCmd  `cmd:"" group:"operate" help:"Bring the database's schema up to date, or check it."`
	Sweep    sweepCmd    `cmd:"" group:"operate" help:"Make one pass over abandoned claims, unknowns and expired keys."`
	Version  versionCmd  `cmd:"" group:"operate" help:"Show the version."`
}

const description = "onlyonce makes money move once per intent, however often the request comes.\n\n" +
	"Without any flag `onlyonce serve` runs on an SQLite file in this folder, with a sandbox provider, " +
	"and prints a line of curl to paste. `onlyonce demo` shows what it is for."

// run is the program as a value: everything that it touches beside files and
// sockets comes in. It returns the exit status.
func run(ctx context.Context, args []string, env func(string) (string, bool), stdout, stderr io.Writer) int {
	p := &program{ctx: ctx, env: env, stdout: stdout, stderr: stderr}
	if len(args) == 1 || len(args) == 0 {
		args = guessed(args)
	}
	parser, err := newParser(p)
	if err != nil {
		fmt.Fprintln(stderr, "onlyonce:", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if err == nil {
		err = parsed.Run(p)
	} else if !errors.Is(err, errHelpShown) {
		err = usageError{err.Error() + helpHint(err)}
	}
	return p.exit(err)
}

// guessed takes what people type first for what they mean.
func guessed(args []string) []string {
	switch {
	case len(args) == 0 || args[0] == "help":
		return []string{"--help"}
	case args[0] == "--version":
		return []string{"version"}
	}
	return args
}

func newParser(p *program) (*kong.Kong, error) {
	return kong.New(&commands{},
		kong.Name("onlyonce"),
		kong.Description(description),
		kong.Writers(p.stdout, p.stderr),
		kong.NoDefaultHelp(),
		kong.Vars{"scenario_db": scenarioDBHelp},
		kong.Resolvers(fromEnvironment(p.env)),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Run:"},
			{Key: "look", Title: "Look:"},
			{Key: "operate", Title: "Operate:"},
			{Key: "listen", Title: "Who is served, and where:"},
			{Key: "store", Title: "Database:"},
			{Key: "provider", Title: "Payment provider:"},
			{Key: "timing", Title: "Claims, and what is kept:"},
			{Key: "log", Title: "Log:"},
		}),
	)
}

// fromEnvironment lets a flag with the tag from:"NAME" take its value from the
// environment. The empty value counts as none, as compose files pass it.
func fromEnvironment(env func(string) (string, bool)) kong.ResolverFunc {
	return func(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
		name := flag.Tag.Get("from")
		if name == "" {
			return nil, nil
		}
		if value, ok := env(name); ok && value != "" {
			return value, nil
		}
		return nil, nil
	}
}

// exit prints an error in words, if that has not been done, and turns it into
// the exit status.
func (p *program) exit(err error) int {
	var usage usageError
	var found finding
	var told reported
	if err == nil || errors.Is(err, errHelpShown) {
		return exitOK
	}
	if !errors.As(err, &found) && !errors.As(err, &told) {
		fmt.Fprintln(p.stderr, "onlyonce:", err)
	}
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailed
}

// usageError says which setting is refused and how to mend it.
type usageError struct{ sentence string }

func (e usageError) Error() string { return e.sentence }

func refuse(format string, args ...any) error { return usageError{fmt.Sprintf(format, args...)} }

// finding ends a command that worked and whose news is bad.
type finding struct{ what string }

func (f finding) Error() string { return f.what }

// reported is an error that the log has told already.
type reported struct{ error }

// Unwrap returns the error.
func (r reported) Unwrap() error { return r.error }

// writeJSON writes one line that a program can read.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
