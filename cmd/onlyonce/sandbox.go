package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
)

// sandboxCmd runs the simulator by itself, for several servers or for clients
// of Stripe's API.
type sandboxCmd struct {
	Listen           string        `from:"ONLYONCE_SANDBOX_LISTEN" default:"127.0.0.1:8018" placeholder:"HOST:PORT"`
	SandboxDB        string        `name:"sandbox-db" from:"ONLYONCE_SANDBOX_DB" placeholder:"FILE"`
	SandboxKeyWindow time.Duration `from:"ONLYONCE_SANDBOX_KEY_WINDOW" default:"24h" placeholder:"DURATION"`
	LogLevel         slog.Level    `from:"ONLYONCE_LOG_LEVEL" default:"info" placeholder:"LEVEL"`
}

func (sandboxCmd) example() string {
	return "onlyonce sandbox --listen 127.0.0.1:8018\n" +
		"onlyonce serve --provider stripe --stripe-url http://127.0.0.1:8018 --stripe-key sk_test_any"
}

// sandboxStop bounds the wait for the sandbox's last answers.
const sandboxStop = 10 * time.Second

// Run serves the simulator until the program is told to stop.
func (c sandboxCmd) Run(p *program) error {
	if _, err := splitAddress("--listen", c.Listen); err != nil {
		return err
	}
	if c.SandboxKeyWindow <= 0 {
		return refuse("--sandbox-key-window is %v: it must be longer than nothing, for example 24h", c.SandboxKeyWindow)
	}
	path := sandboxPath(c.SandboxDB, storeFlags{})
	log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: c.LogLevel}))
	box, err := sandbox.Open(p.ctx, sandbox.Options{Path: path, KeyWindow: c.SandboxKeyWindow, Log: log})
	if err != nil {
		return fmt.Errorf("--sandbox-db %s: %w", path, err)
	}
	srv := sandboxServer(box, log)
	srv.Addr = c.Listen
	listening, err := listenAll(p.ctx, []listener{{"--listen", srv}})
	if err != nil {
		return errors.Join(err, box.Close())
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listening[0]) }()
	base := baseURL(listening[0].Addr())
	fmt.Fprint(p.stdout, sandboxBanner(base, path, c.SandboxKeyWindow, p.paintFor(p.stdout)))
	select {
	case <-p.ctx.Done():
		err = nil
	case err = <-failed:
	}
	closed := box.Close() // lets go of the connections that are held without an answer
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), sandboxStop)
	defer cancel()
	return errors.Join(err, closed, srv.Shutdown(ctx))
}

// stripeKeyWindow is what a server expects of a provider that speaks Stripe's
// format, if it is not told otherwise.
const stripeKeyWindow = 24 * time.Hour

func sandboxBanner(base, path string, window time.Duration, p paint) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s\n\n", p.bold("onlyonce sandbox: a payment provider that misbehaves on demand"))
	fmt.Fprintf(&b, "  %s %s  (Stripe's wire format)\n", p.dim(pad("listening", 10)), base)
	fmt.Fprintf(&b, "  %s %s\n", p.dim(pad("ledger", 10)), base+"/sandbox/ledger")
	fmt.Fprintf(&b, "  %s %s\n\n", p.dim(pad("file", 10)), path)
	b.WriteString("A server that uses it:\n\n")
	fmt.Fprintf(&b, "  onlyonce serve --provider stripe --stripe-url %s --stripe-key sk_test_any", base)
	if window < stripeKeyWindow {
		// Past its window the sandbox takes a repeated key for a new charge, as Stripe does.
		fmt.Fprintf(&b, " \\\n    --provider-key-window %v", window*23/24)
	}
	b.WriteString("\n\n")
	return b.String()
}
