package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/server"
)

// serveCmd runs the payments server.
type serveCmd struct {
	listenFlags `group:"listen"`
	engineFlags
	NoMigrate bool `from:"ONLYONCE_NO_MIGRATE" group:"store"`
	logFlags  `group:"log"`
}

// listenFlags say who is served, and where.
type listenFlags struct {
	Listen      string   `from:"ONLYONCE_LISTEN" default:"127.0.0.1:8017" placeholder:"HOST:PORT"`
	OpsListen   string   `from:"ONLYONCE_OPS_LISTEN" placeholder:"HOST:PORT"`
	Account     []string `from:"ONLYONCE_ACCOUNTS" placeholder:"ID=APIKEY"`
	OperatorKey string   `from:"ONLYONCE_OPERATOR_KEY" placeholder:"KEY"`
	MaxBody     byteSize `from:"ONLYONCE_MAX_BODY" default:"64KiB" placeholder:"SIZE"`
}

// logFlags say what is logged, and how.
type logFlags struct {
	LogFormat string     `from:"ONLYONCE_LOG_FORMAT" default:"text" enum:"text,json" placeholder:"FORMAT"`
	LogLevel  slog.Level `from:"ONLYONCE_LOG_LEVEL" default:"info" placeholder:"LEVEL"`
}

func (serveCmd) example() string {
	return "onlyonce serve\n" +
		"onlyonce serve --db sqlite:/var/lib/onlyonce/onlyonce.db --listen 0.0.0.0:8017 --log-format json\n" +
		"ONLYONCE_DB=postgres://onlyonce:PASSWORD@db.internal/onlyonce onlyonce serve --db-conns 20\n" +
		"STRIPE_API_KEY=sk_test_… onlyonce serve --provider stripe --ops-listen 127.0.0.1:8019"
}

const (
	// drainSlack is for the answers to reach slow clients; added to the lease, in
	// which every run ends.
	drainSlack = 10 * time.Second

	opsHeaderTimeout = 5 * time.Second
)

// Run serves until the program is told to stop.
func (c *serveCmd) Run(p *program) error {
	log := c.logger(p)
	err := c.serve(p, log)
	if err != nil && c.LogFormat == "json" {
		log.ErrorContext(p.ctx, "onlyonce ends", "err", err)
		return reported{err}
	}
	return err
}

func (c *serveCmd) logger(p *program) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(p.stderr, options))
	}
	return slog.New(slog.NewTextHandler(p.stderr, options))
}

func (c *serveCmd) serve(p *program, log *slog.Logger) error {
	who, err := c.signIns()
	if err != nil {
		return err
	}
	h, err := c.build(p.ctx, log, !c.NoMigrate, who.ensure)
	if err != nil {
		return err
	}
	if c.OperatorKey != "" {
		log.InfoContext(p.ctx, "--operator-key is set, but this release has no console yet: nobody can sign in with it")
	}
	if who.none {
		log.WarnContext(p.ctx, "there is no account yet, so nobody can sign in: make one with `onlyonce accounts add ID`")
	}
	return errors.Join(c.runHouse(p, h, who, log), h.close())
}

// runHouse starts the duties, listens, and comes back once all is finished.
func (c *serveCmd) runHouse(p *program, h *house, who *signIns, log *slog.Logger) error {
	replays := &flow.ReplayCounter{DB: h.db, Log: log}
	servers, err := c.servers(h, who, replays, log)
	if err != nil {
		return err
	}
	// The signal to stop ends the duties last: requests that still run need them.
	shift, ctx := begin(context.WithoutCancel(p.ctx), h.duties(replays))
	listening, err := listenAll(p.ctx, servers)
	if err != nil {
		return errors.Join(err, shift.end())
	}
	failed := make(chan error, len(servers))
	for i, s := range servers {
		go func() { failed <- s.http.Serve(listening[i]) }()
	}
	address := listening[0].Addr()
	log.InfoContext(ctx, "listening", "addr", address.String(), "db", c.shown(), "provider", h.provider.Instance())
	if c.LogFormat == "text" {
		fmt.Fprint(p.stdout, c.banner(address, h, who, p.paintFor(p.stdout)))
	}
	select {
	case <-p.ctx.Done():
		log.InfoContext(ctx, "stopping: what runs is finished first, a second signal ends it at once")
		err = nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case err = <-failed:
	}
	h.waiters.Close() // who waits for an outcome is told what is known, and asks again
	c.drain(ctx, servers, log)
	return firstError(err, shift.end())
}

// drain stops accepting and waits for the requests that run, within bounds.
// What is cut off then is finished by the next start, like after a crash.
func (c *serveCmd) drain(ctx context.Context, servers []listener, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Lease+drainSlack)
	defer cancel()
	for _, s := range servers {
		if err := s.http.Shutdown(ctx); err != nil {
			log.WarnContext(ctx, "requests were cut off: the next start finishes them", "addr", s.http.Addr, "err", err)
			s.http.Close()
		}
	}
}

// listener is a server and the flag that says where.
type listener struct {
	flag string
	http *http.Server
}

// servers are the API, and with --ops-listen what operators look at.
func (c *serveCmd) servers(h *house, who *signIns, replays *flow.ReplayCounter, log *slog.Logger) ([]listener, error) {
	options := server.Options{
		DB: h.db, Store: h.store, Flow: h.flow, Waiters: h.waiters, Replays: replays, MaxBody: int64(c.MaxBody),
		Lease: c.Lease, WellKnownKeys: who.wellKnown && who.local, Version: thisBuild().Version, Log: log,
	}
	ops := options
	if h.provider.sandbox != nil {
		ops.Ledger = h.provider.sandbox.Handler()
		if c.OpsListen == "" && who.local {
			options.Ledger = ops.Ledger
		}
	}
	api, err := server.New(options)
	if err != nil {
		return nil, err
	}
	all := []listener{{"--listen", api.HTTP(c.Listen)}}
	if c.OpsListen == "" {
		return all, nil
	}
	forOperators, err := server.New(ops)
	if err != nil {
		return nil, err
	}
	return append(all, listener{"--ops-listen", &http.Server{
		Addr: c.OpsListen, Handler: onlyOps(forOperators.Handler()), ReadHeaderTimeout: opsHeaderTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}), nil
}

// onlyOps serves what needs no sign-in, and nothing else.
func onlyOps(all http.Handler) http.Handler {
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz", "/openapi.yaml", "/sandbox/ledger"} {
		mux.Handle(path, all)
	}
	return mux
}

// listenAll listens at all addresses or at none.
func listenAll(ctx context.Context, servers []listener) (all []net.Listener, err error) {
	var config net.ListenConfig
	for _, s := range servers {
		l, err := config.Listen(ctx, "tcp", s.http.Addr)
		if err != nil {
			for _, open := range all {
				err = errors.Join(err, open.Close())
			}
			return nil, listenError(s, err)
		}
		all = append(all, l)
	}
	return all, nil
}

func listenError(s listener, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s %s: another program listens there already: stop it, or choose another address, "+
			"for example %s 127.0.0.1:8020", s.flag, s.http.Addr, s.flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s %s: the system does not let this user listen there: choose a port from 1024 up",
			s.flag, s.http.Addr)
	}
	return fmt.Errorf("%s %s: %w: choose an address of this machine and a port from 1024 to 65535",
		s.flag, s.http.Addr, err)
}
