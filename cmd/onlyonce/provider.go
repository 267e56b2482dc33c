package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/provider"
	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
)

const (
	providerSandbox = "sandbox"
	providerStripe  = "stripe"

	// sandboxKey signs in at the sandbox, which takes any key.
	sandboxKey = "sk_test_sandbox"
	// sandboxHeaderTimeout is for clients of the sandbox, which are us.
	sandboxHeaderTimeout = 10 * time.Second
)

// providerFlags say who moves the money.
type providerFlags struct {
	Provider          string         `from:"ONLYONCE_PROVIDER" default:"sandbox" enum:"sandbox,stripe" placeholder:"NAME"`
	StripeKey         string         `from:"STRIPE_API_KEY" placeholder:"KEY"`
	StripeURL         string         `name:"stripe-url" from:"ONLYONCE_STRIPE_URL" placeholder:"URL"`
	ProviderKeyWindow *time.Duration `from:"ONLYONCE_PROVIDER_KEY_WINDOW" placeholder:"DURATION"`
	SandboxDB         string         `name:"sandbox-db" from:"ONLYONCE_SANDBOX_DB" placeholder:"FILE"`
	SandboxKeyWindow  time.Duration  `from:"ONLYONCE_SANDBOX_KEY_WINDOW" default:"24h" placeholder:"DURATION"`
}

// check refuses what can't work, before anything is opened.
func (f providerFlags) check() error {
	if f.ProviderKeyWindow != nil && *f.ProviderKeyWindow <= 0 {
		return refuse("--provider-key-window is %v: it must be longer than nothing, for example 23h", *f.ProviderKeyWindow)
	}
	if f.Provider == providerSandbox {
		if f.SandboxKeyWindow <= 0 {
			return refuse("--sandbox-key-window is %v: it must be longer than nothing, for example 24h", f.SandboxKeyWindow)
		}
		if f.StripeURL != "" {
			return refuse("--stripe-url is set, but --provider is sandbox: add --provider stripe, or leave --stripe-url out")
		}
		return nil
	}
	if f.StripeKey == "" {
		return refuse("--provider stripe needs an API key: set STRIPE_API_KEY or --stripe-key")
	}
	live := strings.HasPrefix(f.StripeKey, "sk_live_") || strings.HasPrefix(f.StripeKey, "rk_live_")
	if u, err := url.Parse(f.StripeURL); live && err == nil && u.Scheme == "http" && !loopbackHost(u.Hostname()) {
		return refuse("--stripe-url %s would send a live key in clear: use https://", f.StripeURL)
	}
	return nil
}

// keyWindow is what the flow is told: 0 lets it take 23/24 of what the
// provider declares.
func (f providerFlags) keyWindow() time.Duration {
	if f.ProviderKeyWindow == nil {
		return 0
	}
	return *f.ProviderKeyWindow
}

// atProvider is the provider, and in-process the sandbox behind it.
type atProvider struct {
	provider.Provider
	sandbox *sandbox.Sandbox // nil when the provider is elsewhere
	server  *http.Server
}

// openProvider reaches the provider. The sandbox is served on a loopback port
// of its own and spoken to over it, so that nothing but the address differs
// from a real provider.
func (f providerFlags) openProvider(ctx context.Context, store storeFlags, timeout time.Duration, log *slog.Logger) (
	*atProvider, error,
) {
	if f.Provider == providerStripe {
		client, err := stripe.New(stripe.Options{URL: f.StripeURL, Key: f.StripeKey, Timeout: timeout, Log: log})
		if err != nil {
			return nil, refuse("--stripe-key and --stripe-url: %v", err)
		}
		return &atProvider{Provider: client}, nil
	}
	path := sandboxPath(f.SandboxDB, store)
	box, err := sandbox.Open(ctx, sandbox.Options{Path: path, KeyWindow: f.SandboxKeyWindow, Log: log})
	if err != nil {
		return nil, fmt.Errorf("--sandbox-db %s: %w%s", path, err, fileCure("--sandbox-db", path))
	}
	listener, err := listenLoopback(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve the sandbox in this process: %w", err), box.Close())
	}
	at := &atProvider{sandbox: box, server: sandboxServer(box, log)}
	go at.server.Serve(listener) // ends with close
	at.Provider, err = stripe.New(stripe.Options{
		URL: "http://" + listener.Addr().String(), Key: sandboxKey, Timeout: timeout,
		Instance: "sandbox:" + box.ID(), Facts: box.Facts(), Log: log,
	})
	if err != nil {
		return nil, errors.Join(err, at.close())
	}
	return at, nil
}

func sandboxServer(box *sandbox.Sandbox, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: box.Handler(), ReadHeaderTimeout: sandboxHeaderTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// close lets the sandbox go first: the server would wait for the connections
// that it holds.
func (a *atProvider) close() error {
	if a.sandbox == nil {
		return nil
	}
	return errors.Join(a.sandbox.Close(), a.server.Close())
}

const (
	// Ports of our own choice lie below the range from which systems take the
	// ports of outgoing connections (Linux: from 32768), so that none of those
	// is in the way when a process comes back to its port.
	lowestPort, portAbove = 20000, 32768
	portTries             = 50
)

// listenLoopback listens on a free port of 127.0.0.1.
func listenLoopback(ctx context.Context) (net.Listener, error) {
	var config net.ListenConfig
	for range portTries {
		port := lowestPort + rand.IntN(portAbove-lowestPort)
		listener, err := config.Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return listener, nil
		}
	}
	return config.Listen(ctx, "tcp", "127.0.0.1:0")
}

// loopbackHost reports whether only this machine can reach the host.
func loopbackHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
