package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// testKeysAreBytes claims keys that some collation, column width or padding
// rule would take for the same.
func testKeysAreBytes(t *testing.T, s Subject) {
	long := strings.Repeat("k", 254)
	names := []string{
		"pay-A1", "pay-a1", "pay-a1 ", " pay-a1", "pay-a1  ", "PAY-A1", "1", "01", "1.0", "1e0", "%", "_", "'", `"`, `\`,
		`\\`, "NULL", "null", "a'--", "../k", "k;x=1", "~", long + "a", long + "b", long,
	}
	accounts := []string{"acct", "Acct", "acct ", "åcct", "a\u030acct", "\U0001f4b6\U0001f4b7",
		strings.Repeat("a", 64), strings.Repeat("a", 63)}
	var keys []onlyonce.Key
	for _, a := range accounts {
		for _, n := range names {
			keys = append(keys, onlyonce.Key{Account: a, Name: n})
		}
	}
	for i, key := range keys {
		in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
			c := claim("", onlyonce.Token(fmt.Sprint(i)))
			c.Key = key
			recs, err := s.Store.Claim(ctx, tx, []onlyonce.Claim{c})
			if err == nil && recs[0].Owner != c.Owner {
				return fmt.Errorf("key %v was taken for key %v", key, recs[0].Key)
			}
			return err
		})
	}
	for i, key := range keys {
		if rec := load(t, s, key); rec.Key != key || rec.Owner != onlyonce.Token(fmt.Sprint(i)) {
			t.Errorf("load %v: got key %v of owner %s", key, rec.Key, rec.Owner)
		}
	}
}

// testKeysTooLong sends keys that no store may ever see, so that none is cut.
func testKeysTooLong(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{})
	bad := []onlyonce.Key{
		{Account: account, Name: strings.Repeat("k", 256)}, {Account: account, Name: "a\x00b"},
		{Account: account, Name: ""}, {Account: account, Name: "   "}, {Account: account, Name: "a\tb"},
		{Account: account, Name: "ké"}, {Account: "", Name: "k"}, {Account: strings.Repeat("a", 65), Name: "k"},
	}
	for _, key := range bad {
		for verb, ask := range map[string]func(context.Context, onlyonce.Tx, onlyonce.Intent) (onlyonce.Decision, error){
			"Begin": once.Begin, "Look": once.Look,
		} {
			var calls Faulty
			err := s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
				want := intent("", "body")
				want.Key = key
				_, err := ask(ctx, calls.Wrap(tx), want)
				return err
			})
			if !errors.Is(err, onlyonce.ErrInvalidKey) || calls.Calls != 0 {
				t.Errorf("%s of key %v: %v after %d statements, want ErrInvalidKey before any", verb, key, err, calls.Calls)
			}
		}
	}
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := once.Begin(ctx, tx, intent(strings.Repeat("k", 255), "body"))
		return err
	})
}

// testManyKeys passes several keys to each verb and expects the answers in
// the order of the keys, whatever the order of the rows is.
func testManyKeys(t *testing.T, s Subject) {
	names := []string{"c", "a", "d", "b"}
	var claims []onlyonce.Claim
	var keys []onlyonce.Key
	for _, n := range names {
		claims = append(claims, claim(n, onlyonce.Token("mine-"+n)))
		keys = append(keys, claims[len(claims)-1].Key)
	}
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := s.Store.Claim(ctx, tx, []onlyonce.Claim{claim("d", "other")})
		return err
	})
	mine := []bool{true, true, false, true}
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		recs, err := s.Store.Claim(ctx, tx, claims)
		if err != nil {
			return err
		}
		for i, rec := range recs {
			if rec.Key != keys[i] || (rec.Owner == claims[i].Owner) != mine[i] {
				t.Errorf("claim %v: got %v of owner %s", keys[i], rec.Key, rec.Owner)
			}
		}
		advanced, err := s.Store.Advance(ctx, tx, claims)
		if err != nil || !slices.Equal(advanced, mine) {
			t.Errorf("advance: %v %v, want %v", advanced, err, mine)
		}
		return err
	})
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		done, err := s.Store.Finish(ctx, tx, claims[:2], make([]onlyonce.Outcome, 2), time.Hour)
		if err != nil || !slices.Equal(done, mine[:2]) {
			t.Errorf("finish: %v %v, want %v", done, err, mine[:2])
		}
		freed, err := s.Store.Release(ctx, tx, claims)
		if want := []bool{false, false, false, true}; err != nil || !slices.Equal(freed, want) {
			t.Errorf("release: %v %v, want %v", freed, err, want)
		}
		recs, err := s.Store.Load(ctx, tx, keys, true)
		if err != nil {
			return err
		}
		for i, want := range []onlyonce.Status{onlyonce.Completed, onlyonce.Completed, onlyonce.InProgress, ""} {
			if recs[i].Status != want {
				t.Errorf("key %v is %q, want %q", keys[i], recs[i].Status, want)
			}
		}
		return nil
	})
}
