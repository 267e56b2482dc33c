package sqlstore_test

import (
	"database/sql"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// TestEffectEndsItsTransaction lets an effect commit by itself, with COMMIT or
// with DDL, and fail then. What it did stays, so it must not be done again, now
// or after the lease. SQLite refuses the commit, so that there a retry may run.
func TestEffectEndsItsTransaction(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		ends := map[string]func(tx *sql.Tx) error{"COMMIT": (*sql.Tx).Commit}
		if e.Dialect == "mysql" {
			ends["DDL"] = func(tx *sql.Tx) error {
				_, err := tx.Exec("CREATE TABLE later (id BIGINT PRIMARY KEY)")
				return err
			}
		}
		for name, end := range ends {
			var skew atomic.Int64
			s := newService(t, e.Database(t), sqlstore.Options{Skew: func() time.Duration { return time.Duration(skew.Load()) }})
			own := ownPool(t, s.link)
			_, err := sqlstore.Do(t.Context(), s.once, own, intent("k"), func(tx *sql.Tx) (onlyonce.Outcome, error) {
				if _, err := order("k")(tx); err != nil {
					return onlyonce.Outcome{}, err
				}
				return onlyonce.Outcome{}, errors.Join(end(tx), errDisk)
			})
			if err == nil {
				t.Errorf("%s: an effect that failed was reported as done", name)
			}
			if e.Dialect == "sqlite" {
				s.expectOrders(t, "k", 0)
				continue
			}
			if _, err := s.orderDo(t.Context(), own, "k"); !errors.Is(err, onlyonce.ErrInFlight) {
				t.Errorf("%s, within the lease: %v, want ErrInFlight", name, err)
			}
			skew.Store(int64(s.once.Lease()))
			if _, err := s.orderDo(t.Context(), own, "k"); !errors.Is(err, onlyonce.ErrUnknown) {
				t.Errorf("%s, after the lease: %v, want ErrUnknown", name, err)
			}
			s.expectOrders(t, "k", 1)
		}
	})
}
