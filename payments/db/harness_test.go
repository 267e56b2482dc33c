package db_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

const account = "acct_1"

// bench is the payments' tables on a real database, with a clock that the test moves.
type bench struct {
	t      testing.TB
	mu     sync.Mutex
	offset time.Duration
	store  *sqlstore.DB
	engine *onlyonce.Engine
	db     *db.DB
	raw    *sql.DB // past the package, as another process
	seen   *seen   // the statements that the package sends
}

// onEach runs a test on every engine, with the requests in clear.
func onEach(t *testing.T, test func(t *testing.T, b *bench)) {
	engines.Each(t, func(t *testing.T, e engines.Engine) { test(t, newBench(t, e, db.PlainSealer())) })
}

func newBench(t testing.TB, e engines.Engine, seal db.Sealer) *bench {
	t.Helper()
	b := &bench{t: t, seen: &seen{}}
	url := e.Database(t)
	var err error
	b.store, err = sqlstore.Open(t.Context(), url, sqlstore.Options{Skew: b.skew, Connect: b.seen.wrap})
	must(t, err)
	t.Cleanup(func() { must(t, b.store.Close()) })
	_, err = b.store.Migrate(t.Context(), sqlstore.EngineMigrations(), db.Migrations())
	must(t, err)
	b.engine, err = onlyonce.New(onlyonce.Options{Store: b.store.Store()})
	must(t, err)
	b.db = db.New(b.store, b.engine, seal)
	b.raw = e.SQL(t, url)
	return b
}

func (b *bench) skew() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.offset
}

func (b *bench) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.offset += d
}

func (b *bench) now() (now time.Time) {
	b.t.Helper()
	must(b.t, b.store.View(b.t.Context(), func(ctx context.Context, tx onlyonce.Tx) (err error) {
		now, err = b.store.Store().Now(ctx, tx)
		return err
	}))
	return now
}

func (b *bench) exec(query string, args ...any) {
	b.t.Helper()
	_, err := b.raw.ExecContext(b.t.Context(), b.rebind(query), args...)
	must(b.t, err)
}

func (b *bench) rebind(query string) string { return b.store.Dialect().Rebind(query) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func intentOf(key string) onlyonce.Intent {
	return onlyonce.Intent{
		Key: onlyonce.Key{Account: account, Name: key}, Operation: "payments.create",
		Fingerprint: onlyonce.NewFingerprint([]byte(key)),
	}
}

// begin is a phase that stores a payment as the flow's first one does.
func begin(key string, change func(*payments.Payment, *payments.Dispatch)) db.Phase {
	in := intentOf(key)
	return db.Phase{Want: db.Want{Begin: &in, Generation: true}, Decide: func(h db.Have) (db.Changes, error) {
		if h.Claim == nil {
			return db.Changes{}, fmt.Errorf("key %s is not free", key)
		}
		id := "pay_" + key
		amount := money.Amount{Minor: 10000, Currency: "USD"}
		p := &payments.Payment{
			Account: account, ID: id, Key: key, Amount: amount, State: payments.Processing, Version: 1, Instance: "fake:1",
			Metadata: map[string]string{"a": "ü"}, Description: "d", CreatedAt: h.Now, UpdatedAt: h.Now,
		}
		d := &payments.Dispatch{
			Account: account, Resource: id, Kind: payments.KindPayment, Key: key, RequestID: "req", Instance: "fake:1",
			ProviderKey: "pk_" + key, Request: payments.Request{Body: []byte("pm_secret"), Version: "v1"}, Amount: amount,
			FirstSentAt: h.Now, Sends: 1,
		}
		if change != nil {
			change(p, d)
		}
		c := *h.Claim
		c.Point, c.Resource = onlyonce.Dispatched, id
		e := payments.Event{
			Account: account, Resource: id, Version: 1, At: h.Now, Type: payments.EventClaimed, State: p.State, Attempt: 1,
		}
		return db.Changes{Payment: p, Dispatch: d, Events: []payments.Event{e}, Key: db.KeyChange{Advance: &c}}, nil
	}}
}

// add stores a payment.
func (b *bench) add(key string, change func(*payments.Payment, *payments.Dispatch)) string {
	b.t.Helper()
	must(b.t, b.db.Commit(b.t.Context(), begin(key, change)))
	return "pay_" + key
}

// held is the claim that stands under a key.
func (b *bench) held(key string) onlyonce.Claim {
	b.t.Helper()
	rec := b.record(key)
	return onlyonce.Claim{Intent: rec.Intent, Owner: rec.Owner, Attempt: rec.Attempt, Lease: b.engine.Lease(),
		Point: rec.Point, Resource: rec.Resource}
}

func (b *bench) record(key string) (rec onlyonce.Record) {
	b.t.Helper()
	must(b.t, b.store.View(b.t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
		recs, err := b.store.Store().Load(ctx, tx, []onlyonce.Key{{Account: account, Name: key}}, false)
		if err == nil {
			rec = recs[0]
		}
		return err
	}))
	return rec
}

// settle is a phase that adds an event to a payment and changes its dispatch.
func (b *bench) settle(key string, change func(*payments.Payment, *payments.Dispatch)) db.Phase {
	c := b.held(key)
	want := db.Want{Held: &c, PaymentID: "pay_" + key, Dispatch: true}
	return db.Phase{Want: want, Decide: func(h db.Have) (db.Changes, error) {
		p, d := *h.Payment, *h.Dispatch
		change(&p, &d)
		p.Version++
		p.UpdatedAt = h.Now
		e := payments.Event{
			Account: account, Resource: p.ID, Version: p.Version, At: h.Now, Type: payments.EventChecked, State: p.State,
		}
		return db.Changes{Payment: &p, Dispatch: &d, Events: []payments.Event{e}}, nil
	}}
}
