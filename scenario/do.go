package scenario

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

const (
	doAccount   = "17" // the account in the files' tables, too
	doOperation = "scenario"
	doStatus    = 201 // what a charge is answered with
)

var errFails = errors.New("the effect failed, as the scenario says")

// do runs a statement at most once for a key, with sqlstore.Do. Each session
// has an engine of its own, as each process of a service would.
func (s *session) do(ctx context.Context, l line, statement string, answers chan<- result) result {
	intent := onlyonce.Intent{
		Key:         onlyonce.Key{Account: doAccount, Name: l.key},
		Operation:   doOperation,
		Fingerprint: onlyonce.NewFingerprint([]byte(l.intent)),
	}
	// By whom, so that a replay can be told from an answer of one's own.
	outcome := onlyonce.Outcome{Status: doStatus, Body: []byte(l.intent + " by " + s.name)}
	pausing := l.pausing
	done, err := sqlstore.Do(ctx, s.claimer, s.pool, intent, func(tx *sql.Tx) (onlyonce.Outcome, error) {
		r, err := talk(ctx, tx, statement)
		if err != nil || !pausing {
			return outcome, err
		}
		pausing = false // Do may run the effect again
		answers <- result{words: pausedWord, detail: r.words}
		select {
		case err = <-s.pause:
		case <-ctx.Done():
			err = ctx.Err()
		}
		return outcome, err
	})
	switch {
	case errors.Is(err, errFails):
		return said("failed")
	case errors.Is(err, onlyonce.ErrMismatch):
		return failed(errMismatch, err.Error())
	case errors.Is(err, onlyonce.ErrInFlight):
		return failed(errInFlight, err.Error())
	case err != nil:
		return s.node.failure(err)
	}
	word := "done"
	if done.Replayed {
		word = "replay"
	}
	return said(fmt.Sprintf("%s %d %s", word, done.Outcome.Status, done.Outcome.Body))
}
