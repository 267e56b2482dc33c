// Package db turns what the flow decided into SQL: statements on the payments'
// tables, and the committer that loads what a phase wants, lets it decide, and
// applies its changes in one transaction.
package db

import (
	"errors"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

var (
	// ErrNotFound: there is no such row in this account. Correct the id.
	ErrNotFound = errors.New("not found")
	// ErrConflict: this very API key is taken. Choose another.
	ErrConflict = errors.New("taken already")
)

// DB is the payments' share of a store.
type DB struct {
	store  *sqlstore.DB
	engine *onlyonce.Engine
	seal   Sealer
	q      statements
}

// Want is what a phase reads before it decides. Rows are locked in one order
// everywhere: key, order guard, payment, refund.
type Want struct {
	Begin     *onlyonce.Intent // claim this key, or learn why not
	Held      *onlyonce.Claim  // prove that this claim is still ours
	TakeOver  *onlyonce.Key    // take over this key's lapsed claim, at any point
	OrderID   string           // whose guard is held? with the account of the key
	PaymentID string
	RefundID  string
	// Dispatch loads the payment's or refund's dispatch: the refund's if RefundID is set.
	Dispatch bool
	// Generation counts the operations made earlier under the same account and key.
	Generation bool
}

// Have is what was read. Absent rows are nil.
type Have struct {
	Now        time.Time // the database's clock
	Decision   onlyonce.Decision
	KeyError   error             // why Begin did not claim: an onlyonce sentinel
	Claim      *onlyonce.Claim   // from Begin, Held or TakeOver
	Guard      *payments.Payment // the payment that holds the order
	Payment    *payments.Payment
	Refund     *payments.Refund
	Dispatch   *payments.Dispatch
	Generation int
}

// Changes is what a phase decided, as a value. A zero Changes writes nothing,
// and a claim that Begin made is then rolled back.
type Changes struct {
	Payment  *payments.Payment  // inserted when its first event has version 1, else updated
	Refund   *payments.Refund   // likewise
	Dispatch *payments.Dispatch // inserted with its resource, else updated
	Events   []payments.Event   // one for each step of a resource's version, in order
	Key      KeyChange
}

// KeyChange is what becomes of the claim. At most one of Finish and Advance is set.
type KeyChange struct {
	Finish  *onlyonce.Outcome
	Advance *onlyonce.Claim // with the point, resource and lease to write
}

func (c Changes) empty() bool {
	return c.Payment == nil && c.Refund == nil && c.Dispatch == nil && len(c.Events) == 0 &&
		c.Key.Finish == nil && c.Key.Advance == nil
}

// Phase is one transaction of the flow.
type Phase struct {
	Want Want
	// Begun, if set, is called when a transaction has begun, before its first
	// statement: whatever it reads of a clock is older than the claim's lease.
	Begun func()
	// Decide is pure: it may run again with fresh rows after a lost race. An
	// error rolls everything back and reaches the caller as it is.
	Decide func(Have) (Changes, error)
}
