// Command onlyonce serves payments that move money once per intent, and holds
// the tools of those who operate it. Each subcommand has its own file: flags,
// then configuration, then the run.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // what runs is finished
		<-signals
		os.Exit(exitFailed) // as safe as a crash, which the next start recovers from
	}()
	os.Exit(run(ctx, os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr))
}
