package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
	"github.com/onlyonce-go/onlyonce/storetest/wire"
)

// eachServer runs a test on every engine that is a server.
func eachServer(t *testing.T, test func(t *testing.T, e engines.Engine)) {
	t.Helper()
	for _, e := range engines.Named(t, engines.Names()[1:]...) {
		t.Run(e.Name, func(t *testing.T) { test(t, e) })
	}
}

// orderIn is an order in a transaction of this module's own.
func (s service) orderIn(ctx context.Context, db *sqlstore.DB, id string) (replayed bool, err error) {
	err = db.InTx(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		d, err := s.once.Begin(ctx, tx, intent(id))
		if replayed = err == nil && d.Outcome != nil; err != nil || replayed {
			return err
		}
		if _, err := tx.Exec(ctx, insert(id)); err != nil {
			return err
		}
		return s.once.Finish(ctx, tx, *d.Claim, onlyonce.Outcome{Status: 201, Body: []byte(id)})
	})
	return replayed, err
}

// orderDo is an order through Do.
func (s service) orderDo(ctx context.Context, db *sql.DB, id string) (replayed bool, err error) {
	res, err := sqlstore.Do(ctx, s.once, db, intent(id), order(id))
	return res.Replayed, err
}

// TestLostCommits loses the answer to COMMIT, and COMMIT itself, on the way
// between client and server: the caller is told that the outcome is unknown,
// and the same key finds out.
func TestLostCommits(t *testing.T) {
	eachServer(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{})
		p := wire.Listen(t, s.link)
		db, own := reach(t, p.URL, sqlstore.Options{}), ownPool(t, p.URL)
		ways := map[string]func(id string) (bool, error){
			"InTx": func(id string) (bool, error) { return s.orderIn(t.Context(), db, id) },
			"Do":   func(id string) (bool, error) { return s.orderDo(t.Context(), own, id) },
		}
		for way, order := range ways {
			for act, durable := range map[wire.Act]bool{wire.LoseAnswer: true, wire.LoseRequest: false} {
				id := fmt.Sprintf("%s-%v", way, durable)
				seen := p.Seen()
				p.Commits(act)
				_, err := order(id)
				p.Commits(wire.Pass)
				if !errors.Is(err, onlyonce.ErrCommitUnknown) || p.Seen() != seen+1 {
					t.Errorf("%s: %v after %d COMMITs, want ErrCommitUnknown after one", id, err, p.Seen()-seen)
				}
				if replayed, err := order(id); err != nil || replayed != durable {
					t.Errorf("%s, the retry: replayed %v, error %v", id, replayed, err)
				}
				s.expectOrders(t, id, 1)
			}
		}
	})
}

// TestHungCommitsCount lets COMMITs hang on the way: their callers are told
// soon, their connections count against the pool, and when none is left the
// next caller is told that the store is busy.
func TestHungCommitsCount(t *testing.T) {
	eachServer(t, func(t *testing.T, e engines.Engine) {
		const conns = 2
		s := newService(t, e.Database(t), sqlstore.Options{CommitWait: 50 * time.Millisecond, BusyWait: time.Second})
		p := wire.Listen(t, s.link)
		db := reach(t, p.URL, sqlstore.Options{Writers: conns, CommitWait: 50 * time.Millisecond, BusyWait: time.Second})
		own := ownPool(t, p.URL)
		own.SetMaxOpenConns(conns)
		ways := map[string]func(id string) (bool, error){
			"InTx": func(id string) (bool, error) { return s.orderIn(t.Context(), db, id) },
			"Do":   func(id string) (bool, error) { return s.orderDo(t.Context(), own, id) },
		}
		for way, order := range ways {
			p.Commits(wire.Hold)
			for n := range conns {
				if _, err := order(fmt.Sprint(way, n)); !errors.Is(err, onlyonce.ErrCommitUnknown) {
					t.Errorf("%s %d: %v, want ErrCommitUnknown", way, n, err)
				}
			}
			if _, err := order(way + "none left"); !errors.Is(err, sqlstore.ErrBusy) {
				t.Errorf("%s: %v, want ErrBusy", way, err)
			}
			p.Commits(wire.Pass)
			for n := range conns {
				replayed, err := order(fmt.Sprint(way, n))
				if err != nil || !replayed {
					t.Errorf("%s %d, the retry: replayed %v, error %v", way, n, replayed, err)
				}
				s.expectOrders(t, fmt.Sprint(way, n), 1)
			}
			if _, err := order(way + "none left"); err != nil {
				t.Errorf("%s, when there is room again: %v", way, err)
			}
		}
	})
}
