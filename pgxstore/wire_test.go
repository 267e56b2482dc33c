package pgxstore_test

import (
	"errors"
	"testing"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/pgxstore"
	"github.com/onlyonce-go/onlyonce/sqlstore"
	"github.com/onlyonce-go/onlyonce/storetest/wire"
)

// TestLostCommits loses the answer to COMMIT, and COMMIT itself, with a pool
// of one connection: the same key finds out, and there is one order.
func TestLostCommits(t *testing.T) {
	eachPostgres(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e, sqlstore.Options{})
		p := wire.Listen(t, s.link)
		s.link = p.URL
		db := s.one(t, nil)
		for id, act := range map[string]wire.Act{"answer": wire.LoseAnswer, "request": wire.LoseRequest} {
			p.Commits(act)
			_, err := pgxstore.Do(t.Context(), s.once, db, intent(id), order(id))
			if !errors.Is(err, onlyonce.ErrCommitUnknown) {
				t.Errorf("%s lost: %v, want ErrCommitUnknown", id, err)
			}
			p.Commits(wire.Pass)
			res, err := pgxstore.Do(t.Context(), s.once, db, intent(id), order(id))
			if err != nil || res.Replayed != (act == wire.LoseAnswer) {
				t.Errorf("%s lost, the retry: %+v %v", id, res, err)
			}
			s.expectOrders(t, id, 1)
		}
	})
}

// TestPreparedCommit commits in PostgreSQL's other protocol, which the wire
// must recognise too.
func TestPreparedCommit(t *testing.T) {
	eachPostgres(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e, sqlstore.Options{})
		p := wire.Listen(t, s.link)
		s.link = p.URL
		conn, err := s.one(t, nil).Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
		p.Commits(wire.LoseAnswer)
		for _, text := range []string{"BEGIN", "INSERT INTO orders (id) VALUES ('k')", "COMMIT"} {
			_, err = conn.Conn().PgConn().ExecParams(t.Context(), text, nil, nil, nil, nil).Close()
			if lost := err != nil; lost != (text == "COMMIT") {
				t.Errorf("%s: %v", text, err)
			}
		}
		if p.Seen() != 1 {
			t.Errorf("%d COMMITs were seen", p.Seen())
		}
		s.expectOrders(t, "k", 1)
	})
}

// engine returns an engine for PostgreSQL.
func engine(t *testing.T, o sqlstore.Options) *onlyonce.Engine {
	t.Helper()
	once, err := onlyonce.New(onlyonce.Options{Store: sqlstore.New(sqlstore.Postgres(), o)})
	if err != nil {
		t.Fatal(err)
	}
	return once
}

// intent names a request.
func intent(key string) onlyonce.Intent {
	return onlyonce.Intent{
		Key:         onlyonce.Key{Account: "acct_1", Name: key},
		Operation:   "test.effect",
		Fingerprint: onlyonce.NewFingerprint([]byte("body")),
	}
}
