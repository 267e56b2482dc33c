package pgxstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/pgxstore"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// service is a service's own database with the engine's tables in it.
type service struct {
	link, mode string
	outside    *sql.DB
	once       *onlyonce.Engine
}

func newService(t *testing.T, e engines.Engine, o sqlstore.Options) service {
	t.Helper()
	link := database(t, e)
	s := service{link, execMode(e), e.SQL(t, link), engine(t, o)}
	if _, err := s.outside.Exec("CREATE TABLE orders (id TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return s
}

// one makes a pool of one connection.
func (s service) one(t *testing.T, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return connect(t, s.link, s.mode, func(cfg *pgxpool.Config) {
		cfg.MaxConns = 1
		if change != nil {
			change(cfg)
		}
	})
}

// order writes one row.
func order(id string) func(tx pgx.Tx) (onlyonce.Outcome, error) {
	return func(tx pgx.Tx) (onlyonce.Outcome, error) {
		_, err := tx.Exec(context.Background(), "INSERT INTO orders (id) VALUES ($1)", id)
		return onlyonce.Outcome{Status: 201, Body: []byte(id)}, err
	}
}

func (s service) expectOrders(t *testing.T, id string, want int) {
	t.Helper()
	var n int
	if err := s.outside.QueryRow("SELECT count(*) FROM orders WHERE id = $1", id).Scan(&n); err != nil || n != want {
		t.Errorf("%d orders %s, want %d: %v", n, id, want, err)
	}
}

// TestTransactionLost lets an effect lose its transaction and go on: nothing
// of it is durable, Do says so, and the pool works on.
func TestTransactionLost(t *testing.T) {
	effects := map[string]func(t *testing.T, tx pgx.Tx){
		"swallowed an error": func(t *testing.T, tx pgx.Tx) {
			if _, err := tx.Exec(t.Context(), "SELECT 1/0"); err == nil {
				t.Error("the statement did not fail")
			}
		},
		"interrupted": func(t *testing.T, tx pgx.Tx) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if _, err := tx.Exec(ctx, "SELECT pg_sleep(60)"); err == nil {
				t.Error("the statement was not interrupted")
			}
		},
		"rolled back by the effect": func(t *testing.T, tx pgx.Tx) {
			if err := tx.Rollback(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"disconnected": func(t *testing.T, tx pgx.Tx) {
			if err := tx.Conn().Close(t.Context()); err != nil {
				t.Error(err)
			}
		},
	}
	eachPostgres(t, func(t *testing.T, e engines.Engine) {
		for name, lose := range effects {
			s := newService(t, e, sqlstore.Options{})
			db := s.one(t, nil)
			_, err := pgxstore.Do(t.Context(), s.once, db, intent("k"), func(tx pgx.Tx) (onlyonce.Outcome, error) {
				if _, err := order("k")(tx); err != nil {
					return onlyonce.Outcome{}, err
				}
				lose(t, tx)
				_, _ = order("k")(tx)
				return onlyonce.Outcome{Status: 201}, nil
			})
			if !errors.Is(err, onlyonce.ErrTransactionLost) {
				t.Errorf("%s: %v, want ErrTransactionLost", name, err)
			}
			s.expectOrders(t, "k", 0)
			res, err := pgxstore.Do(t.Context(), s.once, db, intent("k"), order("k"))
			if err != nil || res.Replayed {
				t.Errorf("%s, the retry: %+v %v", name, res, err)
			}
			s.expectOrders(t, "k", 1)
		}
	})
}

// TestCommitWithAWarning lets the server warn beside a COMMIT that it reports as
// done, as it does when the wait for a standby is cut short: it is in doubt, and
// the same key finds out. A warning before does not count.
func TestCommitWithAWarning(t *testing.T) {
	eachPostgres(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e, sqlstore.Options{})
		_, err := s.outside.Exec(`
			CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'only here'; RETURN NULL; END $$;
			CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON orders DEFERRABLE INITIALLY DEFERRED
				FOR EACH ROW WHEN (NEW.id LIKE 'doubt%') EXECUTE FUNCTION warn()`)
		if err != nil {
			t.Fatal(err)
		}
		db := s.one(t, nil)
		for _, id := range []string{"doubt", "fine"} {
			_, err := pgxstore.Do(t.Context(), s.once, db, intent(id), func(tx pgx.Tx) (onlyonce.Outcome, error) {
				if _, err := tx.Exec(t.Context(), "DO $$ BEGIN RAISE WARNING 'early'; END $$"); err != nil {
					return onlyonce.Outcome{}, err
				}
				return order(id)(tx)
			})
			if errors.Is(err, onlyonce.ErrCommitUnknown) != (id == "doubt") || id == "fine" && err != nil {
				t.Errorf("%s: %v", id, err)
			}
			res, err := pgxstore.Do(t.Context(), s.once, db, intent(id), order(id))
			if err != nil || !res.Replayed {
				t.Errorf("%s, the retry: %+v %v", id, res, err)
			}
			s.expectOrders(t, id, 1)
		}
	})
}

// tracer cancels at the n-th statement, before or after it ran.
type tracer struct {
	n, calls int
	after    bool
	cancel   context.CancelFunc
}

func (c *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if c.calls++; c.calls == c.n && !c.after {
		c.cancel()
	}
	return ctx
}

func (c *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {
	if c.calls == c.n && c.after {
		c.cancel()
	}
}

// TestClientGone cancels the client's context at every statement (case 49).
// Whatever Do said, a retry ends in one order.
func TestClientGone(t *testing.T) {
	const maxStatements = 30
	eachPostgres(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e, sqlstore.Options{})
		again := s.one(t, nil)
		for _, after := range []bool{false, true} {
			for n := 1; ; n++ {
				if n > maxStatements {
					t.Fatalf("more than %d statements", maxStatements)
				}
				id := fmt.Sprintf("k%d-%v", n, after)
				ctx, cancel := context.WithCancel(t.Context())
				c := &tracer{n: n, after: after, cancel: cancel}
				db := s.one(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.Tracer = c })
				_, err := pgxstore.Do(ctx, s.once, db, intent(id), order(id))
				cancel()
				if err != nil && !errors.Is(err, sqlstore.ErrBusy) {
					t.Errorf("%s: %v, want ErrBusy or nothing", id, err)
				}
				if err != nil {
					s.expectOrders(t, id, 0)
				}
				if _, err := pgxstore.Do(t.Context(), s.once, again, intent(id), order(id)); err != nil {
					t.Errorf("%s, the retry: %v", id, err)
				}
				s.expectOrders(t, id, 1)
				if c.calls < n {
					break
				}
			}
		}
	})
}

// TestRefusals runs Do where it must not run.
func TestRefusals(t *testing.T) {
	eachPostgres(t, func(t *testing.T, e engines.Engine) {
		s := newService(t, e, sqlstore.Options{})
		db := s.one(t, nil)
		strange := engine(t, sqlstore.Options{})
		other, err := onlyonce.New(onlyonce.Options{Store: sqlstore.New(sqlstore.SQLite(), sqlstore.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pgxstore.Do(t.Context(), other, db, intent("k"), order("k")); err == nil {
			t.Error("Do ran with a store that speaks to another engine")
		}
		bare := connect(t, e.Database(t), s.mode, nil)
		_, err = pgxstore.Do(t.Context(), strange, bare, intent("k"), order("k"))
		if !errors.Is(err, sqlstore.ErrSchemaOld) {
			t.Errorf("without tables: %v, want ErrSchemaOld", err)
		}
		var name string
		if err := s.outside.QueryRow("SELECT current_database()").Scan(&name); err != nil {
			t.Fatal(err)
		}
		if _, err := s.outside.Exec("ALTER DATABASE " + name + " SET synchronous_commit = off"); err != nil {
			t.Fatal(err)
		}
		if e.Name == engines.PgBouncer {
			return // its own connections are older than the setting
		}
		fresh := s.one(t, nil)
		_, err = pgxstore.Do(t.Context(), s.once, fresh, intent("k"), order("k"))
		if !errors.Is(err, sqlstore.ErrUnsafeSettings) {
			t.Errorf("with synchronous_commit off: %v, want ErrUnsafeSettings", err)
		}
		s.expectOrders(t, "k", 0)
	})
}
