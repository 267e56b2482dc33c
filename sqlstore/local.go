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

// Client is what Local needs of a library that talks to the database. Do has
// one for database/sql, and package pgxstore one for pgx.
type Client interface {
	// Look gives a connection to read with, outside of any transaction, within
	// ctx. done gives it back.
	Look(ctx context.Context) (tx onlyonce.Tx, done func(), err error)
	// Begin gets a connection, checks its settings and begins a transaction on
	// it, all within ctx; the transaction itself must outlive ctx.
	Begin(ctx context.Context) (Session, error)
}

// Session is an open transaction and the connection that it runs on.
type Session struct {
	Tx onlyonce.Tx
	// Commit waits for the server's answer, however long that takes, and returns
	// an error if the answer leaves doubt.
	Commit   func() error
	Rollback func() error
	// Release gives the connection back, or closes it unless it is clean.
	Release func(clean bool)
}

// Local is Do for any client library: the adapter in client begins and ends,
// and effect runs in the transaction that it began last. A client serves one
// call of Local.
func (s *Store) Local(ctx context.Context, once *onlyonce.Engine, client Client, in onlyonce.Intent,
	effect func() (onlyonce.Outcome, error)) (res Result, err error) {
	err = s.again(ctx, func() (err error) {
		res, err = s.answer(ctx, once, client, in, effect)
		return err
	})
	return res, err
}

// answer replays what is stored, and else takes its turn to run.
func (s *Store) answer(ctx context.Context, once *onlyonce.Engine, client Client, in onlyonce.Intent,
	effect func() (onlyonce.Outcome, error)) (Result, error) {
	wait, cancel := context.WithTimeout(ctx, s.o.BusyWait)
	defer cancel()
	d, err := s.look(wait, once, client, in)
	if err != nil || d.Outcome != nil {
		return replay(d, err)
	}
	if err := s.turns.enter(wait); err != nil {
		return Result{}, err
	}
	session, err := client.Begin(wait)
	if err != nil {
		s.turns.leave()
		return Result{}, s.d.unreached(wait, "begin a transaction", err)
	}
	t := &native{s: s, Session: session}
	defer t.giveUp()
	res, err := s.perform(ctx, once, t, in, effect)
	if err != nil && s.d.endsConn(err) {
		t.throwAway()
	}
	return res, err
}

// look reads the key on a connection that is given back before the turn to
// write is waited for: with a pool of one that would wait for itself.
func (s *Store) look(wait context.Context, once *onlyonce.Engine, client Client, in onlyonce.Intent) (
	onlyonce.Decision, error) {
	tx, done, err := client.Look(wait)
	if err != nil {
		return onlyonce.Decision{}, s.d.unreached(wait, "look at the key", err)
	}
	defer done()
	d, err := once.Look(wait, tx, in)
	if err == nil && d.Outcome != nil {
		var waits bool
		if waits, err = s.AwaitsStandby(wait, tx); waits {
			return onlyonce.Decision{}, nil // the transaction reads it again, and waits for the standby
		}
	}
	switch {
	case err == nil || d.Record.Status != "": // an answer
	case wait.Err() != nil:
		err = s.d.unreached(wait, "look at the key", err)
	case s.unmigrated(wait, tx):
		err = fmt.Errorf("%w: %w", ErrSchemaOld, err)
	}
	return d, err
}

// unmigrated reports that the table of the keys is missing.
func (s *Store) unmigrated(ctx context.Context, tx onlyonce.Tx) bool {
	var n int64
	found, err := scalar(ctx, tx, &n, s.d.schema.tableExists, "idempotency_keys")
	return err == nil && found && n == 0
}

// perform is the transaction: claim, effect, outcome, proof, COMMIT.
func (s *Store) perform(ctx context.Context, once *onlyonce.Engine, t *native, in onlyonce.Intent,
	effect func() (onlyonce.Outcome, error)) (Result, error) {
	begin, cancel := s.working(ctx)
	defer cancel()
	d, err := once.BeginAt(begin, t.Tx, in, onlyonce.Dispatched)
	if err != nil && s.d.lockTimeout(err) {
		return Result{}, fmt.Errorf("%w: the transaction that holds key %v did not end within %v: %w",
			onlyonce.ErrInFlight, in.Key, s.o.BusyWait, err)
	}
	if err == nil && d.Outcome != nil && s.d.standby != "" {
		err = t.end() // which returns when all that was read is where it has to be
	}
	if err != nil || d.Outcome != nil {
		return replay(d, err)
	}
	if d.Claim.Attempt > 1 && d.Claim.Point != onlyonce.Started {
		return Result{Record: d.Record}, fmt.Errorf("key %v stands at %q without an outcome: its effect was outside, which "+
			"only its resolver may go on with, or it ended its own transaction; look at what it has done: %w",
			in.Key, d.Claim.Point, onlyonce.ErrUnknown)
	}
	outcome, err := effect()
	if err != nil && s.refused(err) {
		return Result{}, t.lost(in, err)
	}
	if err != nil {
		return Result{}, err
	}
	if outcome, err = outcome.Storable(); err != nil {
		return Result{}, err
	}
	finish, cancel := s.working(ctx) // anew: how long the effect takes is its own affair
	defer cancel()
	err = once.Finish(finish, t.Tx, *d.Claim, outcome)
	if err != nil && s.gone(err) {
		return Result{}, t.lost(in, err)
	}
	if err != nil {
		return Result{}, err
	}
	if err := t.end(); err != nil {
		return Result{}, err
	}
	return Result{Outcome: outcome}, nil
}

// lost ends a transaction that the server has ended by itself while the effect
// ran: it can't be committed, and its connection serves nobody else.
func (t *native) lost(in onlyonce.Intent, err error) error {
	t.throwAway()
	if t.s.d.Retryable(err) {
		return fmt.Errorf("store the outcome of key %v: %w", in.Key, err) // run it again
	}
	return fmt.Errorf("%w: key %v: %w", onlyonce.ErrTransactionLost, in.Key, err)
}

// gone reports whether an error of the last statement means that there is no
// transaction any more, or none that holds the claim.
func (s *Store) gone(err error) bool {
	return errors.Is(err, onlyonce.ErrFenced) || errors.Is(err, sql.ErrTxDone) || s.refused(err) || s.d.endsTx(err)
}

func replay(d onlyonce.Decision, err error) (Result, error) {
	if err != nil {
		return Result{Record: d.Record}, err
	}
	return Result{Outcome: *d.Outcome, Replayed: true, Record: d.Record}, nil
}
