package sqlstore_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// TestRacedRunsAgain lets work say that it lost: it runs again with everything
// undone, and the caller hears of it only when no try is left.
func TestRacedRunsAgain(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "keys.db"), sqlstore.Options{BusyWait: 100 * time.Millisecond})
	once := engine(t, db.Store())
	runs := 0
	lose := func(times int) error {
		runs = 0
		return db.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			d, err := once.Begin(ctx, tx, intent("k"))
			if err != nil || d.Claim == nil {
				return fmt.Errorf("run %d did not find the key free: %+v %w", runs, d, err)
			}
			if runs++; runs <= times {
				return fmt.Errorf("the version moved: %w", sqlstore.ErrRaced)
			}
			return once.Finish(ctx, tx, *d.Claim, onlyonce.Outcome{Status: 200})
		})
	}
	if err := lose(1 << 30); !errors.Is(err, sqlstore.ErrRaced) || !errors.Is(err, sqlstore.ErrBusy) || runs < 2 {
		t.Errorf("always lost: %v after %d runs, want ErrRaced and ErrBusy", err, runs)
	}
	if err := lose(2); err != nil || runs != 3 {
		t.Errorf("lost twice: %v after %d runs", err, runs)
	}
	if got := status(t, db, "k"); got != onlyonce.Completed {
		t.Errorf("the key is %q", got)
	}
}
