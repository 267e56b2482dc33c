package onlyonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

const (
	defaultSweep = 5 * time.Second
	defaultBatch = 100 // rows of one sweep's statement; bounds what it holds in memory
)

// Completer finishes abandoned claims. Each sweep it takes over those whose
// lease has lapsed, oldest first, and hands them to Resume.
type Completer struct {
	Engine *Engine
	Tx     Transactor
	// View runs a function that only reads, for example sqlstore.DB.View, so that
	// looking for work takes no lock. Default: Tx.InTx.
	View func(ctx context.Context, work func(ctx context.Context, tx Tx) error) error
	// Resume goes on from c.Point. It runs with no transaction open, and an
	// error is logged; the claim then lapses again and the next sweep retries.
	Resume func(ctx context.Context, c Claim) error
	Every  time.Duration // between sweeps; default 5 s
	Batch  int           // claims of one sweep; default 100
	Log    *slog.Logger  // default slog.Default()
}

// Run sweeps until ctx is done, then returns nil.
func (c *Completer) Run(ctx context.Context) error {
	return every(ctx, c.Every, logger(c.Log), "complete abandoned claims", func(ctx context.Context) error {
		_, err := c.Sweep(ctx)
		return err
	})
}

// Sweep makes one pass and returns how many claims it took over and resumed
// without an error. One claim's error does not stop the others.
func (c *Completer) Sweep(ctx context.Context) (int, error) {
	due, err := c.Engine.due(ctx, c.Tx, c.View, InProgress, c.Batch)
	if err != nil {
		return 0, fmt.Errorf("list abandoned claims: %w", err)
	}
	resumed := 0
	var failed []error
	for _, rec := range due {
		var claim Claim
		err := c.Tx.InTx(ctx, func(ctx context.Context, tx Tx) (err error) {
			claim, err = c.Engine.TakeOver(ctx, tx, rec)
			return err
		})
		if errors.Is(err, ErrInFlight) {
			continue // another worker was quicker
		}
		if err == nil {
			err = c.Resume(ctx, claim)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("resume key %v: %w", rec.Key, err))
			continue
		}
		resumed++
	}
	return resumed, errors.Join(failed...)
}

// Reaper turns outcomes past their retention into tombstones and deletes
// tombstones past their time, in small batches of keys read beforehand, so
// that it never blocks a claim.
type Reaper struct {
	Engine *Engine
	Tx     Transactor
	// View is as in [Completer].
	View  func(ctx context.Context, work func(ctx context.Context, tx Tx) error) error
	Every time.Duration // between sweeps; default 5 s
	Batch int           // keys of one transaction; default 100
	Log   *slog.Logger  // default slog.Default()
}

// Run sweeps until ctx is done, then returns nil.
func (r *Reaper) Run(ctx context.Context) error {
	return every(ctx, r.Every, logger(r.Log), "reap expired keys", func(ctx context.Context) error {
		_, err := r.Sweep(ctx)
		return err
	})
}

// Sweep reaps all that is due, batch by batch, and returns how many rows it
// changed or deleted.
func (r *Reaper) Sweep(ctx context.Context) (int64, error) {
	var total int64
	for _, status := range []Status{Completed, Tombstone} {
		for {
			n, full, err := r.batch(ctx, status)
			total += n
			if err != nil {
				return total, fmt.Errorf("reap %s keys: %w", status, err)
			}
			if !full || n == 0 || ctx.Err() != nil {
				break
			}
		}
	}
	return total, nil
}

func (r *Reaper) batch(ctx context.Context, status Status) (n int64, full bool, err error) {
	due, err := r.Engine.due(ctx, r.Tx, r.View, status, r.Batch)
	if err != nil || len(due) == 0 {
		return 0, false, err
	}
	keys := make([]Key, len(due))
	for i, rec := range due {
		keys[i] = rec.Key
	}
	err = r.Tx.InTx(ctx, func(ctx context.Context, tx Tx) (err error) {
		n, err = r.Engine.o.Store.Reap(ctx, tx, keys, r.Engine.o.Tombstones)
		return err
	})
	return n, len(keys) == batch(r.Batch), err
}

// due lists rows whose time has come. The list is only a hint: whoever acts on
// it proves each row again.
func (e *Engine) due(ctx context.Context, t Transactor,
	view func(context.Context, func(context.Context, Tx) error) error, status Status, limit int,
) (due []Record, err error) {
	if view == nil {
		view = t.InTx
	}
	err = view(ctx, func(ctx context.Context, tx Tx) (err error) {
		due, err = e.o.Store.Due(ctx, tx, status, batch(limit))
		return err
	})
	return due, err
}

func batch(n int) int {
	if n > 0 {
		return n
	}
	return defaultBatch
}

func logger(l *slog.Logger) *slog.Logger {
	if l != nil {
		return l
	}
	return slog.Default()
}

// every runs duty at once and then each period until ctx is done. A failed
// pass is logged and the next one tries again.
func every(ctx context.Context, period time.Duration, log *slog.Logger, name string,
	duty func(context.Context) error) error {
	if period <= 0 {
		period = defaultSweep
	}
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		if err := duty(ctx); err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "could not "+name, "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
