package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// InTx runs work in a transaction of its own and commits it: see
// onlyonce.Transactor. ctx bounds the wait for the transaction to begin, and
// nothing after: work that has begun is finished and committed even when the
// client has gone, and a statement is never interrupted.
//
// ErrUnavailable, ErrBusy among it: nothing is durable, try again later.
// onlyonce.ErrCommitUnknown: COMMIT was sent and not answered within
// CommitWait, or failed in a way that proves nothing. A panic in work rolls
// back and goes on to the caller. Every other error is the work's own.
func (d *DB) InTx(ctx context.Context, work func(ctx context.Context, tx onlyonce.Tx) error) error {
	return d.store.again(ctx, func() error { return d.attempt(ctx, work) })
}

// attempt is one try at a transaction.
func (d *DB) attempt(ctx context.Context, work func(ctx context.Context, tx onlyonce.Tx) error) error {
	s := d.store
	conn, err := d.begin(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := s.working(ctx)
	defer cancel()
	tx := &guarded{wrapped: wrapped{conn}, d: s.d, ctx: ctx}
	t := &native{s: s, Session: Session{
		Tx:       tx,
		Commit:   func() error { return s.certain(conn, func() error { return run(conn, s.d.commit) }) },
		Rollback: func() error { return run(conn, s.d.rollback) },
		Release: func(clean bool) {
			if !clean || tx.unfit {
				discard(conn)
			}
			_ = conn.Close() // back to the pool, which reports nothing worth knowing
		},
	}}
	defer t.giveUp()
	if err := work(ctx, tx); err != nil {
		return err
	}
	if tx.lost != nil {
		return tx.gone()
	}
	return t.end()
}

// working is the context of a transaction that has begun: it outlives the
// caller's. Before COMMIT its end is no doubt, only a loss.
func (s *Store) working(ctx context.Context) (context.Context, context.CancelFunc) {
	return s.bounded(context.WithoutCancel(ctx))
}

// bounded ends where a server may fall silent in the middle, after as long as
// a caller waits at most. On SQLite nothing falls silent, and an interrupt
// would end more than the statement.
func (s *Store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, set := ctx.Deadline(); set || s.d.oneWriter {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.o.BusyWait+s.o.CommitWait)
}

// begin waits for a turn, a connection and the write lock, all within
// BusyWait.
func (d *DB) begin(ctx context.Context) (*sql.Conn, error) {
	s := d.store
	if err := d.present(); err != nil {
		return nil, err
	}
	wait, cancel := context.WithTimeout(ctx, s.o.BusyWait)
	defer cancel()
	if err := s.turns.enter(wait); err != nil {
		return nil, err
	}
	conn, err := s.beginOn(wait, d.writer, s.d.begin(s.o))
	if err != nil {
		s.turns.leave()
	}
	return conn, err
}

// beginOn begins on a connection of the pool, and tries another one when that
// has died since it was used last, as all of them do when a server is
// restarted, or is at a server that can't be written any more.
func (s *Store) beginOn(wait context.Context, pool *sql.DB, texts ...string) (*sql.Conn, error) {
	const maxTries = 3
	for n := 1; ; n++ {
		conn, err := pool.Conn(wait)
		if err != nil {
			return nil, s.d.unreached(wait, "get a connection", err)
		}
		for _, text := range texts {
			if err == nil {
				_, err = conn.ExecContext(wait, text)
			}
		}
		if err == nil {
			return conn, nil
		}
		discard(conn) // an interrupted BEGIN may have taken effect
		if n == maxTries || !connectionLost(err) && !s.d.endsConn(err) || wait.Err() != nil {
			return nil, s.d.unreached(wait, "begin a transaction", err)
		}
	}
}

func run(conn *sql.Conn, text string) error {
	_, err := conn.ExecContext(context.Background(), text)
	return err
}

// native is an open transaction together with the connection and the turn
// that it holds. Whoever has it ends it, exactly once.
type native struct {
	Session
	s     *Store
	ended bool // or handed over to the goroutine that commits
}

// giveUp rolls back unless the transaction was ended, panics included.
func (t *native) giveUp() { t.rollBack(true) }

// throwAway ends a transaction that the engine has ended by itself: the
// connection may be in autocommit and must not serve anybody else.
func (t *native) throwAway() { t.rollBack(false) }

// rollBack ends the transaction, which nothing depends on: whatever the answer
// is, and if there is none, it was not committed. So a server that has fallen
// silent holds the connection, and the caller only CommitWait.
func (t *native) rollBack(keep bool) {
	if t.ended {
		return
	}
	t.ended = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := t.Rollback()
		t.release(keep && err == nil)
	}()
	timer := time.NewTimer(t.s.o.CommitWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// release gives back the connection, closed unless it is clean, then the turn.
func (t *native) release(clean bool) {
	t.Release(clean)
	t.s.turns.leave()
}

// end commits. COMMIT runs to its end in a goroutine that owns the connection
// from here on; this caller waits for it only CommitWait.
func (t *native) end() error {
	t.ended = true
	done := make(chan error, 1)
	go func() {
		err := t.Commit()
		if err != nil {
			_ = t.Rollback()
		}
		t.release(err == nil)
		done <- err
	}()
	timer := time.NewTimer(t.s.o.CommitWait)
	defer timer.Stop()
	select {
	case err := <-done:
		return t.s.committed(err)
	case <-timer.C:
	}
	go func() {
		err := t.s.committed(<-done)
		t.s.o.Log.Warn("a commit was answered after its caller had stopped waiting", "wait", t.s.o.CommitWait, "err", err)
	}()
	return fmt.Errorf("%w: no answer within %v", onlyonce.ErrCommitUnknown, t.s.o.CommitWait)
}

// committed says what an error of COMMIT means.
func (s *Store) committed(err error) error {
	switch {
	case err == nil:
		return nil
	case s.d.rolledBack(err):
		return fmt.Errorf("commit, which was rolled back: %w", err)
	}
	return fmt.Errorf("%w: %w", onlyonce.ErrCommitUnknown, err)
}

// discard makes the pool close the connection instead of keeping it.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}
