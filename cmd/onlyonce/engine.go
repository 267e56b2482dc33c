package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/server"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// engineFlags are what it takes to move payments on: `serve` and `sweep` have
// them in common.
type engineFlags struct {
	storeFlags    `group:"store"`
	poolFlags     `group:"store"`
	secretFlags   `group:"store"`
	providerFlags `group:"provider"`
	timingFlags   `group:"timing"`
}

const (
	maxBusyWait = 5 * time.Second // longer than any commit takes on a disk that works
	upkeepEvery = time.Minute
)

// house is everything that moves payments, wired.
type house struct {
	store    *sqlstore.DB
	engine   *onlyonce.Engine
	db       *db.DB
	provider *atProvider
	flow     *flow.Flow
	waiters  *httponce.Waiters

	sweepEvery time.Duration
	log        *slog.Logger
}

// build opens the database and the provider and wires the rest, in the order
// in which a refusal is the most useful. before runs with the database open
// and its schema right.
func (f engineFlags) build(ctx context.Context, log *slog.Logger, migrate bool,
	before func(context.Context, *db.DB) error,
) (h *house, err error) {
	commitWait, err := f.timingFlags.check()
	if err != nil {
		return nil, err
	}
	if err := f.providerFlags.check(); err != nil {
		return nil, err
	}
	if box := sandboxPath(f.SandboxDB, f.storeFlags); f.Provider == providerSandbox && sameFile(box, f.path()) {
		return nil, refuse("--sandbox-db %s is the database itself: the sandbox plays another company's machine, "+
			"give it a file of its own", box)
	}
	seal, err := f.sealer()
	if err != nil {
		return nil, err
	}
	h = &house{waiters: &httponce.Waiters{}, sweepEvery: f.SweepEvery, log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	if h.store, err = f.openSchema(ctx, commitWait, migrate, log); err != nil {
		return h, err
	}
	h.engine, err = onlyonce.New(onlyonce.Options{
		Store: h.store.Store(), Lease: f.Lease, Retention: f.Retention, UnsafeRetention: f.UnsafeRetention,
		Tombstones: f.tombstones(),
	})
	if err != nil {
		return h, refuse("%v", err)
	}
	h.db = db.New(h.store, h.engine, seal)
	if err := before(ctx, h.db); err != nil {
		return h, err
	}
	if h.provider, err = f.openProvider(ctx, f.storeFlags, f.ProviderTimeout, log); err != nil {
		return h, err
	}
	if err := h.refuseForeign(ctx); err != nil {
		return h, err
	}
	if err := h.db.CheckSeal(ctx); err != nil {
		return h, refuse("%v; set --secret-key-file to the key that they were written with", err)
	}
	return h, h.wire(ctx, f, commitWait)
}

// wire makes the flow.
func (h *house) wire(ctx context.Context, f engineFlags, commitWait time.Duration) error {
	installation, err := h.store.Installation(ctx)
	if err != nil {
		return err
	}
	h.flow, err = flow.New(flow.Options{
		DB: h.db, Engine: h.engine, Provider: h.provider, KeyWindow: f.keyWindow(), ProviderTimeout: f.ProviderTimeout,
		CommitWait: commitWait, Installation: installation, Render: server.Render, Settled: h.waiters.Wake, Log: h.log,
	})
	if err != nil {
		return refuse("%v", err)
	}
	return nil
}

// openSchema opens the database and brings its schema up to date, or with
// --no-migrate checks that it is.
func (f engineFlags) openSchema(ctx context.Context, commitWait time.Duration, migrate bool, log *slog.Logger) (
	*sqlstore.DB, error,
) {
	options, err := f.poolFlags.options()
	if err != nil {
		return nil, err
	}
	// Waiting for a turn is a part of the wait for a commit, so it is bounded by it too.
	options.CommitWait, options.BusyWait, options.Log = commitWait, min(commitWait, maxBusyWait), log
	store, err := f.open(ctx, options)
	if err != nil {
		return nil, err
	}
	if !migrate {
		if err = store.CheckSchema(ctx, schema()...); err != nil {
			err = fmt.Errorf("--db %s: %w", f.shown(), err)
		}
	} else if n, errM := store.Migrate(ctx, schema()...); errM != nil {
		err = f.migrateFailed(errM)
	} else if n > 0 {
		log.InfoContext(ctx, "schema brought up to date", "db", f.shown(), "migrations", n)
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// refuseForeign keeps a server from starting while unfinished work belongs to
// a provider that it does not reach: it would be looked up, or sent again, at
// the wrong place.
func (h *house) refuseForeign(ctx context.Context) error {
	counts, err := h.db.Unfinished(ctx)
	if err != nil {
		return fmt.Errorf("count unfinished work: %w", err)
	}
	for _, instance := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[instance]; n > 0 && instance != h.provider.Instance() {
			return refuse("%s at the provider %s, and this configuration reaches %s: start with %s until they are finished",
				plural(n, "payment or refund is unfinished", "payments or refunds are unfinished"), instance,
				h.provider.Instance(), flagThatReaches(instance))
		}
	}
	return nil
}

func flagThatReaches(instance string) string {
	if id, ok := strings.CutPrefix(instance, "sandbox:"); ok {
		return "--provider sandbox --sandbox-db FILE, where FILE is the one that holds the sandbox " + id + ","
	}
	if instance == "stripe:live" {
		return "--provider stripe and a live --stripe-key (sk_live_… or rk_live_…)"
	}
	return "--provider stripe and the test --stripe-key that it was begun with"
}

// close ends what build has opened, the last first.
func (h *house) close() error {
	var errs []error
	if h.provider != nil {
		errs = append(errs, h.provider.close())
	}
	if h.store != nil {
		errs = append(errs, h.store.Close())
	}
	return errors.Join(errs...)
}

// duties are what goes on beside the requests.
func (h *house) duties(replays *flow.ReplayCounter) []duty {
	resolver := &flow.Resolver{Flow: h.flow, Every: h.sweepEvery, Log: h.log}
	return []duty{
		{"resolver", resolver.Run},
		{"completer", h.completer().Run},
		{"reaper", h.reaper().Run},
		{"replay counter", replays.Run},
		{"upkeep", h.upkeep},
	}
}

func (h *house) completer() *onlyonce.Completer {
	return &onlyonce.Completer{
		Engine: h.engine, Tx: h.store, View: h.store.View, Resume: h.flow.Resume, Every: h.sweepEvery, Log: h.log,
	}
}

// upkeep tidies the database up once a minute.
func (h *house) upkeep(ctx context.Context) error {
	ticker := time.NewTicker(upkeepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := h.store.Upkeep(ctx); err != nil && ctx.Err() == nil {
			h.log.WarnContext(ctx, "could not tidy up the database", "err", err)
		}
	}
}

func (h *house) reaper() *onlyonce.Reaper {
	return &onlyonce.Reaper{Engine: h.engine, Tx: h.store, View: h.store.View, Every: h.sweepEvery, Log: h.log}
}
