// Command with starts database servers, runs a command that can use them, and
// stops them:
//
//	with [--only a,b] -- COMMAND ARGS…
//	with --up
//
// The command finds the servers through the environment; see the package
// engines. With --up nothing is run: the servers stay until this is
// interrupted, and the line that it prints lets a shell use them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/daemon"
	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "engines:", err)
	}
	os.Exit(status)
}

// Exit statuses besides the command's own.
const (
	statusFailed = 1
	statusUsage  = 2
)

// errUsage is a command line that says nothing to do.
var errUsage = errors.New("say what to run: with [--only a,b] -- COMMAND ARGS…, or with --up")

func run(args []string) (status int, err error) {
	flags := flag.NewFlagSet("with", flag.ContinueOnError)
	only := flags.String("only", os.Getenv(engines.WantVariable), "names of the engines, between commas, or all")
	stay := flags.Bool("up", false, "run nothing; keep the servers up until interrupted")
	ownOnly := flags.Bool("unpack", false, "use nothing that the system has, as on a machine that has nothing")
	if err := flags.Parse(args); err != nil {
		return statusUsage, nil // flags has said what is wrong
	}
	if *stay == (flags.NArg() > 0) {
		return statusUsage, errUsage
	}
	names, must, err := engines.Wanted(*only)
	if err != nil {
		return statusUsage, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := &software.Log{Out: os.Stderr, Now: time.Now}
	store, err := software.NewStore(os.Getenv(software.DirVariable), log)
	if err != nil {
		return statusFailed, err
	}
	store.OwnOnly = *ownOnly
	site, err := daemon.NewSite(log)
	if err != nil {
		return statusFailed, err
	}
	f := &fleet{store: store, site: site}
	defer func() {
		if bad := f.stop(); bad != nil {
			status, err = max(status, statusFailed), errors.Join(err, bad)
		}
	}()
	up := f.start(ctx, names)
	if ctx.Err() != nil {
		return statusFailed, errors.New("interrupted")
	}
	defer report(up)
	if must && len(up.Missing) > 0 {
		return statusFailed, errors.New("a missing engine is an error here, so nothing was run")
	}
	list := filepath.Join(site.Dir, "engines.json")
	if err := up.Write(list); err != nil {
		return statusFailed, err
	}
	if *stay {
		fmt.Printf("export %s=%s\n", engines.FileVariable, list)
		<-ctx.Done()
		return 0, nil
	}
	return command(ctx, flags.Args(), list)
}

// report says at the very end what ran and, in capitals, what did not.
func report(up engines.Up) {
	var ran []string
	for _, e := range up.Engines {
		ran = append(ran, e.String())
	}
	fmt.Fprintln(os.Stderr, "engines that ran:", strings.Join(ran, ", "))
	for _, m := range up.Missing {
		fmt.Fprintf(os.Stderr, "NOT RUN: %s: %s\n", m.Name, m.Reason)
	}
}

// leaveWait bounds how long the command may take to end once it is interrupted.
const leaveWait = 20 * time.Second

// command runs the command with the terminal's input and output.
func command(ctx context.Context, args []string, list string) (status int, err error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), engines.FileVariable+"="+list)
	// A terminal interrupts the command by itself. make hands on this signal to what it runs, and no other.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = leaveWait
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() > 0 {
		return exit.ExitCode(), nil // the command has said why
	}
	if err != nil {
		return statusFailed, fmt.Errorf("%s: %w", args[0], err)
	}
	return 0, nil
}
