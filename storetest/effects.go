package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

var errCrash = errors.New("crashed on purpose")

// effects counts rows that local effects wrote, in a table of its own.
type effects struct {
	t *testing.T
	s Subject
}

func newEffects(t *testing.T, s Subject) effects {
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := tx.Exec(ctx, `CREATE TABLE storetest_effects (id VARCHAR(64) NOT NULL)`)
		return err
	})
	return effects{t, s}
}

// record is the effect: one row. The id is a plain word of the tests, so that
// the text needs no placeholder, which is not the same on every engine.
func (effects) record(ctx context.Context, tx onlyonce.Tx, id string) error {
	_, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO storetest_effects (id) VALUES ('%s')`, id))
	return err
}

// expect fails the test unless id's effect happened that often.
func (e effects) expect(id string, want int) {
	e.t.Helper()
	var got int
	in(e.t, e.s, func(ctx context.Context, tx onlyonce.Tx) error {
		rows, err := tx.Query(ctx, fmt.Sprintf(`SELECT count(*) FROM storetest_effects WHERE id = '%s'`, id))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := rows.Scan(&got); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if got != want {
		e.t.Errorf("the effect of %s happened %d times, want %d", id, got, want)
	}
}

// testCrashLocal fails every statement of claim, effect and outcome in one
// transaction, before and after it ran, and sends the request again.
func testCrashLocal(t *testing.T, s Subject) {
	once, done := engine(t, s, onlyonce.Options{}), newEffects(t, s)
	local := func(f *Faulty, id string) (replayed bool, err error) {
		err = s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			if f != nil {
				tx = f.Wrap(tx)
			}
			d, err := once.Begin(ctx, tx, intent(id, "body"))
			if replayed = err == nil && d.Outcome != nil; err != nil || replayed {
				return err
			}
			if err := done.record(ctx, tx, id); err != nil {
				return err
			}
			return once.Finish(ctx, tx, *d.Claim, onlyonce.Outcome{Status: 201})
		})
		return replayed, err
	}
	for _, after := range []bool{false, true} {
		n := crashEverywhere(t, after, func(f *Faulty, id string) {
			if _, err := local(f, id); f.Failed() != errors.Is(err, errCrash) {
				t.Fatalf("%s: %v", id, err)
			}
			replayed, err := local(nil, id)
			if err != nil || replayed == f.Failed() {
				t.Errorf("%s: the retry replayed: %v, error: %v", id, replayed, err)
			}
			if replayed, err := local(nil, id); err != nil || !replayed {
				t.Errorf("%s: the third request replayed: %v, error: %v", id, replayed, err)
			}
			done.expect(id, 1)
		})
		if n < 4 {
			t.Errorf("only %d statements: the crashes can't have been everywhere", n)
		}
	}
}

// crashEverywhere runs a story with the first statement failing, then the
// second, and so on until none fails, and returns how many there were.
func crashEverywhere(t *testing.T, after bool, story func(f *Faulty, id string)) int {
	const maxStatements = 100 // a story of more has an endless loop
	for n := 1; n < maxStatements; n++ {
		f := &Faulty{FailAt: n, Err: errCrash, After: after}
		story(f, fmt.Sprintf("crash-%d-%v", n, after))
		if !f.Failed() {
			return f.Calls
		}
	}
	t.Fatalf("more than %d statements", maxStatements)
	return 0
}

// outside is an effect outside of the database, guarded as the engine says:
// claim, dispatch, act, finish, each phase in a transaction of its own.
type outside struct {
	t     *testing.T
	s     Subject
	once  *onlyonce.Engine
	acted map[string]int // the provider's own ledger
}

func (o *outside) run(f *Faulty, id string) error {
	phase := func(work func(ctx context.Context, tx onlyonce.Tx) error) error {
		return o.s.Tx.InTx(o.t.Context(), func(ctx context.Context, tx onlyonce.Tx) error { return work(ctx, f.Wrap(tx)) })
	}
	var d onlyonce.Decision
	err := phase(func(ctx context.Context, tx onlyonce.Tx) (err error) {
		d, err = o.once.Begin(ctx, tx, intent(id, "body"))
		return err
	})
	if err != nil || d.Outcome != nil {
		return err
	}
	c := *d.Claim
	if c.Point == onlyonce.Started {
		c.Point = onlyonce.Dispatched
		err := phase(func(ctx context.Context, tx onlyonce.Tx) error { return o.once.Advance(ctx, tx, c) })
		if err != nil {
			return err
		}
		o.acted[id]++
	} else if o.acted[id] == 0 { // dispatched: ask first; it never arrived
		o.acted[id]++
	}
	return phase(func(ctx context.Context, tx onlyonce.Tx) error {
		if _, err := o.once.Hold(ctx, tx, c); err != nil {
			return err
		}
		return o.once.Finish(ctx, tx, c, onlyonce.Outcome{Status: 201})
	})
}

func testCrashOutside(t *testing.T, s Subject) {
	o := &outside{t: t, s: s, once: engine(t, s, onlyonce.Options{}), acted: map[string]int{}}
	clock := time.Duration(0)
	for _, after := range []bool{false, true} {
		n := crashEverywhere(t, after, func(f *Faulty, id string) {
			err := o.run(f, id)
			if f.Failed() != errors.Is(err, errCrash) {
				t.Fatalf("%s: %v", id, err)
			}
			if err != nil {
				clock += o.once.Lease()
				s.Skew(clock)
			}
			if err := o.run(&Faulty{}, id); err != nil {
				t.Errorf("%s: the retry: %v", id, err)
			}
			if o.acted[id] != 1 {
				t.Errorf("%s: acted %d times", id, o.acted[id])
			}
			if rec := load(t, s, intent(id, "").Key); rec.Status != onlyonce.Completed {
				t.Errorf("%s: the key is %q", id, rec.Status)
			}
		})
		if n < 5 {
			t.Errorf("only %d statements: the crashes can't have been everywhere", n)
		}
	}
}

// testCrashRelease fails every statement of a release: the key then stays
// claimed until its lease is over, and is never half free.
func testCrashRelease(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{})
	clock := time.Duration(0)
	for _, after := range []bool{false, true} {
		crashEverywhere(t, after, func(f *Faulty, id string) {
			var d onlyonce.Decision
			begin := func(ctx context.Context, tx onlyonce.Tx) (err error) {
				d, err = once.Begin(ctx, tx, intent(id, "body"))
				return err
			}
			in(t, s, begin)
			err := s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
				return once.Release(ctx, f.Wrap(tx), *d.Claim)
			})
			if !f.Failed() {
				in(t, s, begin)
				return
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("%s: %v", id, err)
			}
			if err := s.Tx.InTx(t.Context(), begin); !errors.Is(err, onlyonce.ErrInFlight) {
				t.Errorf("%s: %v after the crash, want ErrInFlight", id, err)
			}
			clock += once.Lease()
			s.Skew(clock)
			in(t, s, begin)
			if d.Claim.Attempt != 2 {
				t.Errorf("%s: attempt %d after the lease, want 2", id, d.Claim.Attempt)
			}
		})
	}
}

// testPanic panics in a transaction and expects the panic, and the key free.
func testPanic(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{})
	got := recovered(func() {
		_ = s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			if _, err := once.Begin(ctx, tx, intent("k", "body")); err != nil {
				return err
			}
			panic("on purpose")
		})
	})
	if got != "on purpose" {
		t.Errorf("recovered %v", got)
	}
	if rec := load(t, s, intent("k", "").Key); rec.Status != "" {
		t.Errorf("after the panic the key is %q, want it free", rec.Status)
	}
}

func recovered(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}
