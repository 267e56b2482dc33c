package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/sqlstore"
	"github.com/onlyonce-go/onlyonce/storetest/wire"
)

// TestSilence lets the server fall silent at the statements that begin and end
// a transaction: nobody waits for it without end, and when it speaks again
// everything works.
func TestSilence(t *testing.T) {
	const forever = 20 * time.Second // many times what the waits allow
	short := sqlstore.Options{CommitWait: 300 * time.Millisecond, BusyWait: 300 * time.Millisecond}
	eachServer(t, func(t *testing.T, e engines.Engine) {
		begin := map[string]string{"postgres": "BEGIN", "mysql": "START TRANSACTION"}[e.Dialect]
		s := newService(t, e.Database(t), short)
		p := wire.Listen(t, s.link)
		db, own := reach(t, p.URL, short), ownPool(t, p.URL)
		if err := own.PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		view := func() error {
			return db.View(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
				_, err := db.Store().Now(ctx, tx)
				return err
			})
		}
		for name, c := range map[string]struct {
			word string
			run  func() error
		}{
			"Do begins":     {begin, func() error { _, err := s.orderDo(t.Context(), own, "Do begins"); return err }},
			"InTx begins":   {begin, func() error { _, err := s.orderIn(t.Context(), db, "InTx begins"); return err }},
			"a View begins": {begin, view},
			"a View's end":  {"ROLLBACK", view},
			"InTx gives up": {"ROLLBACK", func() error { return db.InTx(t.Context(), giveUp) }},
		} {
			p.Watch(c.word)
			p.Commits(wire.Hold)
			done := make(chan error, 1)
			go func() { done <- c.run() }()
			select {
			case <-done:
			case <-time.After(forever):
				t.Errorf("%s: still waiting for a silent server", name)
			}
			p.Commits(wire.Pass)
			if err := view(); err != nil {
				t.Errorf("%s, and then it speaks again: %v", name, err)
			}
		}
		if _, err := s.orderDo(t.Context(), own, "after"); err != nil {
			t.Error(err)
		}
	})
}

// giveUp is work that fails by itself.
func giveUp(context.Context, onlyonce.Tx) error { return errDisk }
