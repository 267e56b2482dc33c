package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/onlyonce-go/onlyonce"
)

// Result is what Do returns.
type Result struct {
	Outcome  onlyonce.Outcome
	Replayed bool // the outcome is that of an earlier call
	// Record is the stored row that an error speaks of, for example the
	// resource under onlyonce.ErrExpired; else zero.
	Record onlyonce.Record
}

// Do runs effect at most once for the intent's key, in one transaction with
// the claim and the outcome, and gives every later call the stored outcome.
// once must have been made with a Store of this package, and db must be the
// database with its tables; Do works with any pool, one connection included.
//
// The effect does all that it does through tx, and neither commits nor rolls
// back. It may run again after a rival won or a deadlock, each time with
// everything before undone, so it must not touch anything but tx. An error
// rolls everything back, the key included, and is returned: a retry may run.
// An effect that wants its failure to be final returns a failed outcome. A
// panic rolls back and goes on. ctx bounds the wait for the transaction to
// begin; once the claim is made the transaction goes on without it, and an
// effect that gives a context that ends to tx risks ErrTransactionLost. With the
// driver modernc.org/sqlite no statement that comes after the loss can commit.
//
// A duplicate waits for the original: if that commits it gets the outcome, if
// that rolls back it runs itself. Besides the errors of Engine.Begin:
// onlyonce.ErrCommitUnknown (same key again finds out),
// onlyonce.ErrTransactionLost and onlyonce.ErrOutcomeTooLarge (nothing was
// committed), ErrBusy and ErrUnavailable (nothing is durable).
func Do(ctx context.Context, once *onlyonce.Engine, db *sql.DB, in onlyonce.Intent,
	effect func(tx *sql.Tx) (onlyonce.Outcome, error)) (Result, error) {
	s, ok := once.Store().(*Store)
	if !ok {
		return Result{}, fmt.Errorf("sqlstore.Do needs an engine made with a *sqlstore.Store, not with a %T", once.Store())
	}
	var res Result
	err := s.again(ctx, func() (err error) {
		res, err = s.answer(ctx, once, db, in, effect)
		return err
	})
	return res, err
}

// answer replays what is stored, and else takes its turn to run.
func (s *Store) answer(ctx context.Context, once *onlyonce.Engine, db *sql.DB, in onlyonce.Intent,
	effect func(tx *sql.Tx) (onlyonce.Outcome, error)) (Result, error) {
	wait, cancel := context.WithTimeout(ctx, s.o.BusyWait)
	defer cancel()
	d, err := once.Look(wait, wrapped{db}, in)
	if err != nil && d.Record.Status == "" && wait.Err() != nil {
		return Result{}, s.d.unreached(wait, "look at the key", err)
	}
	if err != nil || d.Outcome != nil {
		return replay(d, err)
	}
	if err := s.turns.enter(wait); err != nil {
		return Result{}, err
	}
	conn, err := db.Conn(wait)
	if err != nil {
		s.turns.leave()
		return Result{}, s.d.unreached(wait, "get a connection", err)
	}
	tx, err := s.beginFor(wait, conn)
	if err != nil {
		discard(conn)
		s.turns.leave()
		return Result{}, err
	}
	arm, unguard := s.guard(conn)
	t := &native{s: s, conn: conn, rollback: tx.Rollback, before: unguard, commit: func() error {
		arm()
		return tx.Commit()
	}}
	defer t.giveUp()
	return s.perform(context.WithoutCancel(ctx), once, t, tx, in, effect)
}

// beginFor checks the settings of a connection that is not ours and begins on
// it. It does so outside of the transaction: a read in front of the claim
// would give it a snapshot that is already old.
func (s *Store) beginFor(wait context.Context, conn *sql.Conn) (*sql.Tx, error) {
	var fault string
	if _, err := scalar(wait, wrapped{conn}, &fault, s.d.settings); err != nil {
		return nil, s.d.unreached(wait, "read the connection's settings", err)
	}
	if fault != "" {
		return nil, fmt.Errorf("%w: %s", ErrUnsafeSettings, fault)
	}
	tx, err := conn.BeginTx(context.WithoutCancel(wait), nil)
	if err != nil {
		return nil, s.d.unreached(wait, "begin a transaction", err)
	}
	return tx, nil
}

// perform is the transaction: claim, effect, outcome, proof, COMMIT.
func (s *Store) perform(ctx context.Context, once *onlyonce.Engine, t *native, tx *sql.Tx, in onlyonce.Intent,
	effect func(tx *sql.Tx) (onlyonce.Outcome, error)) (Result, error) {
	d, err := once.Begin(ctx, Wrap(tx), in)
	if err != nil || d.Outcome != nil {
		return replay(d, err)
	}
	if d.Claim.Point != onlyonce.Started {
		// The key was used for an effect outside: only its resolver may go on.
		err := fmt.Errorf("key %v is at the point %q: %w", in.Key, d.Claim.Point, onlyonce.ErrUnknown)
		return Result{Record: d.Record}, err
	}
	outcome, err := effect(tx)
	if err != nil && s.refused(err) {
		t.throwAway()
		return Result{}, fmt.Errorf("%w: key %v: %w", onlyonce.ErrTransactionLost, in.Key, err)
	}
	if err != nil {
		return Result{}, err
	}
	if outcome, err = outcome.Storable(); err != nil {
		return Result{}, err
	}
	err = once.Finish(ctx, Wrap(tx), *d.Claim, outcome)
	if errors.Is(err, onlyonce.ErrFenced) || errors.Is(err, sql.ErrTxDone) || err != nil && s.refused(err) {
		t.throwAway()
		return Result{}, fmt.Errorf("%w: key %v", onlyonce.ErrTransactionLost, in.Key)
	}
	if err != nil {
		return Result{}, err
	}
	if err := t.end(); err != nil {
		return Result{}, err
	}
	return Result{Outcome: outcome}, nil
}

func replay(d onlyonce.Decision, err error) (Result, error) {
	if err != nil {
		return Result{Record: d.Record}, err
	}
	return Result{Outcome: *d.Outcome, Replayed: true, Record: d.Record}, nil
}
