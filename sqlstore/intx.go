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
	t := &native{s: s, conn: conn, commit: func() error { return run(conn, s.d.commit) },
		rollback: func() error { return run(conn, s.d.rollback) }}
	defer t.giveUp()
	tx := &guarded{wrapped: wrapped{conn}, d: s.d}
	if err := work(context.WithoutCancel(ctx), tx); err != nil {
		return err
	}
	if tx.lost != nil {
		return tx.gone()
	}
	return t.end()
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
	conn, err := d.writer.Conn(wait)
	if err != nil {
		s.turns.leave()
		return nil, s.d.unreached(wait, "get a connection that writes", err)
	}
	if _, err := conn.ExecContext(wait, s.d.begin); err != nil {
		discard(conn) // an interrupted BEGIN may have taken effect
		s.turns.leave()
		return nil, s.d.unreached(wait, "begin a transaction", err)
	}
	return conn, nil
}

func run(conn *sql.Conn, text string) error {
	_, err := conn.ExecContext(context.Background(), text)
	return err
}

// native is an open transaction together with the connection and the turn
// that it holds. Whoever has it ends it, exactly once.
type native struct {
	s                *Store
	conn             *sql.Conn
	commit, rollback func() error
	before           func() // run before the connection is given back; nil: nothing
	ended            bool   // or handed over to the goroutine that commits
}

// giveUp rolls back unless the transaction was ended, panics included.
func (t *native) giveUp() {
	if t.ended {
		return
	}
	t.ended = true
	t.release(t.rollback() == nil)
}

// throwAway ends a transaction that the engine has ended by itself: the
// connection may be in autocommit and must not serve anybody else.
func (t *native) throwAway() {
	t.ended = true
	_ = t.rollback() // fails when there is nothing to roll back; the connection is closed anyway
	t.release(false)
}

// release gives back the connection, closed unless it is clean, then the turn.
func (t *native) release(clean bool) {
	if t.before != nil {
		t.before()
	}
	if !clean {
		discard(t.conn)
	}
	_ = t.conn.Close() // back to the pool; the pool reports nothing worth knowing
	t.s.turns.leave()
}

// end commits. COMMIT runs to its end in a goroutine that owns the connection
// from here on; this caller waits for it only CommitWait.
func (t *native) end() error {
	t.ended = true
	done := make(chan error, 1)
	go func() {
		err := t.commit()
		if err != nil {
			_ = t.rollback()
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
