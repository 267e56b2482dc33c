package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// maxStatements bounds a story that is cut off after 1, 2, 3, … statements.
const maxStatements = 30

// cutAt cancels at the n-th statement, before or after it ran.
type cutAt struct {
	n, calls int
	after    bool
	cancel   context.CancelFunc
}

func (c *cutAt) hook(_ string, run func() error) error {
	c.calls++
	if c.calls != c.n {
		return run()
	}
	if !c.after {
		c.cancel()
		return run()
	}
	err := run()
	c.cancel()
	return err
}

// everywhere runs a story that is cut off at its first statement, at its
// second, and so on, each before and after the statement ran.
func everywhere(t *testing.T, story func(id string, c *cutAt)) {
	t.Helper()
	for _, after := range []bool{false, true} {
		for n := 1; ; n++ {
			if n > maxStatements {
				t.Fatalf("more than %d statements", maxStatements)
			}
			c := &cutAt{n: n, after: after}
			story(fmt.Sprintf("k%d-%v", n, after), c)
			if c.calls < n {
				break
			}
		}
	}
}

// TestDoClientGone cancels the client's context at every statement, before
// and after it ran (case 49). Whatever Do said, a retry ends in one order.
func TestDoClientGone(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{})
		again := hookedPool(t, s.link, passOn)
		everywhere(t, func(id string, c *cutAt) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.cancel = cancel
			_, err := sqlstore.Do(ctx, s.once, hookedPool(t, s.link, c.hook), intent(id), order(id))
			if err != nil && !errors.Is(err, sqlstore.ErrBusy) {
				t.Errorf("%s: %v, want ErrBusy or nothing", id, err)
			}
			if err != nil {
				s.expectOrders(t, id, 0)
			}
			if _, err := sqlstore.Do(t.Context(), s.once, again, intent(id), order(id)); err != nil {
				t.Errorf("%s, the retry: %v", id, err)
			}
			s.expectOrders(t, id, 1)
		})
	})
}

// TestOwnerGone cancels the context of a caller who owns the transaction, at
// every statement (case 49). What the driver says then proves nothing; the next
// request finds out by the key.
func TestOwnerGone(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e.Database(t), sqlstore.Options{})
		everywhere(t, func(id string, c *cutAt) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c.cancel = cancel
			err := s.own(ctx, hookedPool(t, s.link, c.hook), id)
			if err == nil {
				s.expectOrders(t, id, 1)
			}
			if err := s.own(t.Context(), hookedPool(t, s.link, passOn), id); err != nil {
				t.Errorf("%s, the retry: %v", id, err)
			}
			s.expectOrders(t, id, 1)
			if got := status(t, s.db, id); got != onlyonce.Completed {
				t.Errorf("%s: the key is %q", id, got)
			}
		})
	})
}

// own is a caller who begins and commits by himself.
func (s service) own(ctx context.Context, db *sql.DB, id string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	d, err := s.once.Begin(ctx, sqlstore.Wrap(tx), intent(id))
	if err != nil || d.Outcome != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, insert(id)); err != nil {
		return err
	}
	if err := s.once.Finish(ctx, sqlstore.Wrap(tx), *d.Claim, onlyonce.Outcome{Status: 201}); err != nil {
		return err
	}
	return tx.Commit()
}
