package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// testCalendar moves the database's clock to hours that some calendar has
// twice, not at all, or every four years. A lease is as long there as anywhere.
func testCalendar(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{Retention: keep})
	begin := func(key string) error {
		return s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			_, err := once.Begin(ctx, tx, intent(key, "body"))
			return err
		})
	}
	if err := begin("now"); err != nil {
		t.Fatal(err)
	}
	now := load(t, s, intent("now", "").Key).Now
	for i, text := range []string{
		"2027-03-28T00:59:50Z", // Europe: 01:59:50 to 03:00
		"2027-10-31T00:59:50Z", // Europe: 02:59:50, twice
		"2027-03-14T06:59:50Z", // New York: 01:59:50 to 03:00
		"2027-10-02T16:29:50Z", // Lord Howe: half an hour
		"2028-02-28T23:59:50Z", "2028-02-29T23:59:50Z", "2027-12-31T23:59:50Z",
		"2038-01-19T03:14:00Z", // where 32 bits end
		"2100-02-28T23:59:50Z", // no leap year
	} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("k%d", i)
		s.Skew(at.Sub(now))
		if err := begin(key); err != nil {
			t.Fatal(err)
		}
		rec := load(t, s, intent(key, "").Key)
		if rec.CreatedAt.Before(at) || rec.CreatedAt.Sub(at) > patience || rec.LeaseUntil.Sub(rec.CreatedAt) != once.Lease() {
			t.Errorf("at %s: created %v, leased until %v", text, rec.CreatedAt, rec.LeaseUntil)
		}
		s.Skew(at.Sub(now) + once.Lease() - rec.CreatedAt.Sub(at) - time.Second)
		if err := begin(key); !errors.Is(err, onlyonce.ErrInFlight) {
			t.Errorf("at %s, before the lease is over: %v, want ErrInFlight", text, err)
		}
		s.Skew(at.Sub(now) + once.Lease())
		if err := begin(key); err != nil {
			t.Errorf("at %s, after the lease: %v", text, err)
		}
	}
}

// testAmounts writes whole numbers of 64 bits in an effect. Those above 2^53
// lose their last digit in whatever takes them for floats.
func testAmounts(t *testing.T, s Subject) {
	d := newDoing(t, s)
	a := newAccounts(t, s)
	amounts := []int64{0, -1, 1<<53 - 1, 1 << 53, 1<<53 + 1, -1<<53 - 1, math.MaxInt64, math.MinInt64 + 1, math.MinInt64}
	for i, amount := range amounts {
		id := fmt.Sprintf("k%d", i)
		_, _, err := s.Do(t.Context(), d.once, intent(id, "body"),
			func(ctx context.Context, tx onlyonce.Tx) (onlyonce.Outcome, error) {
				_, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO storetest_accounts (id, balance) VALUES ('%s', %d)`, id, amount))
				return onlyonce.Outcome{Status: 201, Body: fmt.Append(nil, amount)}, err
			})
		if err != nil {
			t.Errorf("%d: %v", amount, err)
		}
		if got := a.balance(id); got != amount {
			t.Errorf("%d came back as %d", amount, got)
		}
	}
}
