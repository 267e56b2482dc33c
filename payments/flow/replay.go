package flow

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/db"
)

const (
	flushEvery = time.Minute
	flushBatch = 500 // counts of one transaction, so that no request waits long for its turn
	// maxCounted bounds the resources counted between two flushes.
	maxCounted = 10_000
)

// ReplayCounter counts replays in memory and writes them once a minute, so
// that a replay never waits for a write.
type ReplayCounter struct {
	DB    *db.DB
	Every time.Duration    // between flushes; default 1 min
	Now   func() time.Time // default time.Now
	Log   *slog.Logger     // default slog.Default()

	mu      sync.Mutex
	pending map[counted]tally
}

type counted struct{ account, resource string }

type tally struct {
	n    int64
	last time.Time
}

// Count adds one replay of a resource's outcome. Beyond 10,000 resources
// between two flushes it drops the count: it is for people, not for money.
func (c *ReplayCounter) Count(account, resource string) {
	if resource == "" {
		return
	}
	now := time.Now
	if c.Now != nil {
		now = c.Now
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending == nil {
		c.pending = map[counted]tally{}
	}
	key := counted{account, resource}
	t, known := c.pending[key]
	if !known && len(c.pending) >= maxCounted {
		return
	}
	c.pending[key] = tally{t.n + 1, now().UTC()}
}

// Pending returns what has been counted since the last flush.
func (c *ReplayCounter) Pending(account, resource string) (n int64, last time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.pending[counted{account, resource}]
	return t.n, t.last
}

// Run flushes each minute, and once more when ctx is done.
func (c *ReplayCounter) Run(ctx context.Context) error {
	every, log := c.Every, c.Log
	if every <= 0 {
		every = flushEvery
	}
	if log == nil {
		log = slog.Default()
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return c.Flush(context.WithoutCancel(ctx))
		case <-ticker.C:
			if err := c.Flush(ctx); err != nil {
				log.WarnContext(ctx, "could not store the replay counts", "err", err)
			}
		}
	}
}

// Flush writes what is pending. What could not be written is lost from the
// count and reported.
func (c *ReplayCounter) Flush(ctx context.Context) error {
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	counts := make([]db.ReplayCount, 0, len(pending))
	for key, t := range pending {
		counts = append(counts, db.ReplayCount{Account: key.account, Resource: key.resource, N: t.n, Last: t.last})
	}
	var failed []error
	for batch := range slices.Chunk(counts, flushBatch) {
		failed = append(failed, c.DB.AddReplays(ctx, batch))
	}
	return errors.Join(failed...)
}
