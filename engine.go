package onlyonce

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

const (
	defaultLease      = 30 * time.Second
	defaultRetention  = 30 * 24 * time.Hour
	defaultTombstones = 90 * 24 * time.Hour
	minRetention      = 24 * time.Hour // a client's retries of a whole day must still replay

	// maxLooks bounds how often Begin looks again when the row changes under
	// it. Each further look needs a rival that released, expired or took over
	// the key in between.
	maxLooks = 8
)

// Options configure an [Engine]. The zero value of each but Store is its
// documented default.
type Options struct {
	Store Store
	// Lease is how long an unfinished claim is left alone. Default 30 s.
	Lease time.Duration
	// Retention is how long an outcome is kept. Default 30 days; less than a
	// day is refused unless UnsafeRetention says that it is meant.
	Retention       time.Duration
	UnsafeRetention bool
	// Tombstones is how long an expired key is still refused. Default 90 days;
	// negative: not at all, an expired key is a new intent at once.
	Tombstones time.Duration
	// NewToken makes owner tokens. Default: 128 random bits.
	NewToken func() Token
}

// Engine decides what a request with a key gets. It holds no state of its own
// and is safe for concurrent use.
type Engine struct{ o Options }

// New returns an engine, or an error that names the option that could lose an
// effect and what to set it to.
func New(o Options) (*Engine, error) {
	if o.Store == nil {
		return nil, errors.New("onlyonce: Options.Store is missing")
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Retention == 0 {
		o.Retention = defaultRetention
	}
	if o.Tombstones == 0 {
		o.Tombstones = defaultTombstones
	}
	if o.Tombstones < 0 {
		o.Tombstones = 0
	}
	if o.NewToken == nil {
		o.NewToken = randomToken
	}
	if o.Lease < 0 {
		return nil, fmt.Errorf("onlyonce: Options.Lease is %v; it must be positive", o.Lease)
	}
	if o.Retention < minRetention && !o.UnsafeRetention {
		return nil, fmt.Errorf("onlyonce: Options.Retention is %v: a retry after that would run again; "+
			"set at least %v, or UnsafeRetention", o.Retention, minRetention)
	}
	if o.Retention < 0 {
		return nil, fmt.Errorf("onlyonce: Options.Retention is %v; it must not be negative", o.Retention)
	}
	return &Engine{o}, nil
}

func randomToken() Token { return Token(rand.Text()) }

// Lease returns how long a claim of this engine is left alone.
func (e *Engine) Lease() time.Duration { return e.o.Lease }

// Store returns the store that the engine was made with.
func (e *Engine) Store() Store { return e.o.Store }

// Decision is what a request with a key gets. When Begin's error is nil exactly
// one of Claim and Outcome is set; Look never sets Claim.
type Decision struct {
	// Claim is set when the work is the caller's to do: from its beginning when
	// Claim.Attempt is 1 or Claim.Point is Started, else from Claim.Point.
	Claim *Claim
	// Outcome is set when the work is done: give it back as it is.
	Outcome *Outcome
	// Record is the row as it was read, zero if there is none.
	Record Record
}

// decide is the order in which a second request is answered: mismatch first,
// then finished, then unknown, then running, then lapsed, which is nil.
func decide(rec Record, in Intent) error {
	switch {
	case !rec.Fingerprint.Known():
		return fmt.Errorf("%w: key %v", ErrFingerprintVersion, in.Key)
	case rec.Fingerprint != in.Fingerprint || rec.Operation != in.Operation:
		return ErrMismatch
	case rec.Expired():
		return ErrExpired
	case rec.Status == Completed:
		return nil
	case rec.Point == Unknown:
		return ErrUnknown
	case !rec.Lapsed():
		return ErrInFlight
	}
	return nil
}

// Look answers a request from the stored row alone: one indexed read, no lock,
// no write. It never grants: when the key is free or its lease has lapsed the
// decision holds neither claim nor outcome, and Begin decides.
func (e *Engine) Look(ctx context.Context, tx Tx, in Intent) (Decision, error) {
	if err := in.validate(); err != nil {
		return Decision{}, err
	}
	recs, err := e.o.Store.Load(ctx, tx, []Key{in.Key}, false)
	if err != nil {
		return Decision{}, fmt.Errorf("look at key %v: %w", in.Key, err)
	}
	rec := recs[0]
	if rec.Status == "" || e.forgotten(rec) {
		return Decision{}, nil
	}
	return Decision{Record: rec, Outcome: rec.Outcome}, decide(rec, in)
}

// forgotten reports whether the row's last day is over and only the reaper has
// not come by yet.
func (e *Engine) forgotten(rec Record) bool {
	switch rec.Status {
	case Completed:
		return !rec.Now.Before(rec.ExpiresAt.Add(e.o.Tombstones))
	case Tombstone:
		return !rec.Now.Before(rec.ExpiresAt)
	}
	return false
}

// Begin claims the key, or says why not: [ErrMismatch], [ErrInFlight],
// [ErrUnknown], [ErrExpired] and [ErrFingerprintVersion], each with the record;
// or the decision holds the stored outcome. A claim whose lease has lapsed is
// taken over. The claim is not durable before the transaction is committed:
// nothing may leave the process before.
func (e *Engine) Begin(ctx context.Context, tx Tx, in Intent) (Decision, error) {
	return e.BeginAt(ctx, tx, in, Started)
}

// BeginAt is Begin, with a new claim at this point instead of [Started]. It is
// for work that is meant to commit together with its claim, as sqlstore.Do's
// is, which claims at [Dispatched]: should such a claim ever be found durable
// without an outcome, somebody has ended the transaction in the middle, the
// effect may have happened, and nobody runs it again.
func (e *Engine) BeginAt(ctx context.Context, tx Tx, in Intent, point Point) (Decision, error) {
	if err := in.validate(); err != nil {
		return Decision{}, err
	}
	claim := Claim{Intent: in, Owner: e.o.NewToken(), Attempt: 1, Lease: e.o.Lease, Point: point}
	for range maxLooks {
		recs, err := e.o.Store.Claim(ctx, tx, []Claim{claim})
		if err != nil {
			return Decision{}, fmt.Errorf("claim key %v: %w", in.Key, err)
		}
		d, done, err := e.judge(ctx, tx, recs[0], claim)
		if done || err != nil {
			return d, err
		}
	}
	return Decision{}, fmt.Errorf("claim key %v: it changed %d times while it was looked at: %w",
		in.Key, maxLooks, ErrInFlight)
}

// judge turns the row that stands after a claim into a decision. It is not
// done when the row is gone or another was quicker.
func (e *Engine) judge(ctx context.Context, tx Tx, rec Record, claim Claim) (Decision, bool, error) {
	if rec.Status == "" {
		return Decision{}, false, nil
	}
	if rec.Owner == claim.Owner {
		return Decision{Claim: &claim, Record: rec}, true, nil
	}
	if e.forgotten(rec) {
		_, err := e.o.Store.Reap(ctx, tx, []Key{claim.Key}, e.o.Tombstones)
		return Decision{}, false, err
	}
	if err := decide(rec, claim.Intent); err != nil {
		return Decision{Record: rec}, true, err
	}
	if rec.Status == Completed {
		return Decision{Record: rec, Outcome: rec.Outcome}, true, nil
	}
	taken, err := e.takeOver(ctx, tx, rec, claim.Owner)
	if errors.Is(err, ErrInFlight) {
		return Decision{}, false, nil
	}
	if err != nil {
		return Decision{}, false, err
	}
	return Decision{Record: rec, Claim: &taken}, true, nil
}

// TakeOver claims an unfinished key whose lease has lapsed, at whatever point
// it stands, [Unknown] included. It is for the completer and for resolvers of
// unknowns. ErrInFlight: another worker was quicker, leave it alone.
func (e *Engine) TakeOver(ctx context.Context, tx Tx, rec Record) (Claim, error) {
	return e.takeOver(ctx, tx, rec, e.o.NewToken())
}

func (e *Engine) takeOver(ctx context.Context, tx Tx, rec Record, owner Token) (Claim, error) {
	claim := Claim{
		Intent: rec.Intent, Owner: owner, Attempt: rec.Attempt, Lease: e.o.Lease,
		Point: rec.Point, Resource: rec.Resource,
	}
	recs, err := e.o.Store.TakeOver(ctx, tx, []Claim{claim})
	if err != nil {
		return Claim{}, fmt.Errorf("take over key %v: %w", rec.Key, err)
	}
	if recs[0].Owner != owner {
		return Claim{}, ErrInFlight
	}
	claim.Attempt = recs[0].Attempt
	claim.Point, claim.Resource = recs[0].Point, recs[0].Resource
	return claim, nil
}

// Load returns the row of a key and locks it until the transaction ends. An
// absent key is a zero record.
func (e *Engine) Load(ctx context.Context, tx Tx, key Key) (Record, error) {
	recs, err := e.o.Store.Load(ctx, tx, []Key{key}, true)
	if err != nil {
		return Record{}, fmt.Errorf("load key %v: %w", key, err)
	}
	return recs[0], nil
}

// Hold locks the claim's row for the rest of the transaction and proves that
// it is still the caller's; else ErrFenced.
func (e *Engine) Hold(ctx context.Context, tx Tx, c Claim) (Record, error) {
	rec, err := e.Load(ctx, tx, c.Key)
	if err != nil {
		return Record{}, err
	}
	if rec.Status != InProgress || rec.Owner != c.Owner {
		return rec, ErrFenced
	}
	return rec, nil
}

// Advance writes the claim's point and resource and begins a new lease; a zero
// c.Lease gives the claim up at once, at that point. ErrFenced: nothing was
// written.
func (e *Engine) Advance(ctx context.Context, tx Tx, c Claim) error {
	if err := c.validate(); err != nil {
		return err
	}
	ok, err := e.o.Store.Advance(ctx, tx, []Claim{c})
	return fenced("advance", c, ok, err)
}

// Finish completes the key with its outcome. It drops headers that must not be
// replayed and refuses an outcome over 1 MiB with ErrOutcomeTooLarge.
// ErrFenced: nothing was written, answer from the stored record.
func (e *Engine) Finish(ctx context.Context, tx Tx, c Claim, o Outcome) error {
	if err := c.validate(); err != nil {
		return err
	}
	o, err := o.Storable()
	if err != nil {
		return err
	}
	ok, err := e.o.Store.Finish(ctx, tx, []Claim{c}, []Outcome{o}, e.o.Retention)
	return fenced("finish", c, ok, err)
}

// Release frees a key under which nothing was done and nothing was sent, so
// that the same key can be sent again. ErrFenced: the claim is past the point
// Started or another's, and the key stays.
func (e *Engine) Release(ctx context.Context, tx Tx, c Claim) error {
	ok, err := e.o.Store.Release(ctx, tx, []Claim{c})
	return fenced("release", c, ok, err)
}

func fenced(verb string, c Claim, ok []bool, err error) error {
	if err != nil {
		return fmt.Errorf("%s key %v: %w", verb, c.Key, err)
	}
	if !ok[0] {
		return fmt.Errorf("%s key %v, attempt %d: %w", verb, c.Key, c.Attempt, ErrFenced)
	}
	return nil
}
