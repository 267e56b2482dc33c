package clusters_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

const (
	workers    = 6 // intents under way at a time
	duplicates = 3 // clients of each intent
	wallets    = 4 // few, so that every effect meets others at its row
	opening    = 1_000_000
	account    = "17"
	commitWait = 3 * time.Second
	busyWait   = 2 * time.Second
)

// crowd is clients of local effects, on the pools of several nodes at once.
// Each intent comes from several clients, to different nodes at the same
// moment, and each of them goes on until it has an outcome. What they are told
// is kept, and held against the database in the end.
type crowd struct {
	t      *testing.T
	once   *onlyonce.Engine
	rebind func(string) string
	judge  sqlstore.Dialect
	pools  []*sql.DB

	next, successes atomic.Int64
	doubts          atomic.Int64 // commits whose answer was not seen
	kept            atomic.Int64 // of these, those that were found to be durable
	cutOff          []atomic.Int64
	mu              sync.Mutex
	told            map[string]string // by intent: the body that its first client was told
}

// newCrowd makes the tables on the first node and a pool on each.
func newCrowd(t *testing.T, urls ...string) *crowd {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), urls[0], sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Migrate(t.Context(), sqlstore.EngineMigrations()); err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, judge: db.Dialect(), rebind: db.Dialect().Rebind, told: map[string]string{}}
	c.cutOff = make([]atomic.Int64, len(urls))
	store := sqlstore.New(db.Dialect(), sqlstore.Options{CommitWait: commitWait, BusyWait: busyWait})
	if c.once, err = onlyonce.New(onlyonce.Options{Store: store}); err != nil {
		t.Fatal(err)
	}
	for _, url := range urls {
		pool, _, err := sqlstore.OpenSQL(url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pool.Close() })
		c.pools = append(c.pools, pool)
	}
	c.exec(`CREATE TABLE clusters_effects (token VARCHAR(64) PRIMARY KEY, intent VARCHAR(64) NOT NULL)`)
	c.exec(`CREATE TABLE clusters_wallets (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL)`)
	for id := range wallets {
		c.exec(`INSERT INTO clusters_wallets (id, balance) VALUES (` + strconv.Itoa(id) + `, ` + strconv.Itoa(opening) + `)`)
	}
	return c
}

func (c *crowd) exec(text string) {
	c.t.Helper()
	if _, err := c.pools[0].ExecContext(c.t.Context(), text); err != nil {
		c.t.Fatal(err)
	}
}

// press lets the crowd work while strike does what it does to the cluster, and
// returns when strike is over and every intent has its outcome.
func (c *crowd) press(strike func()) {
	c.t.Helper()
	over := make(chan struct{})
	var crowd sync.WaitGroup
	for range workers {
		crowd.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					c.intend(int(c.next.Add(1)))
				}
			}
		})
	}
	defer crowd.Wait()
	defer close(over)
	strike()
}

// intend has one intent done by several clients at once.
func (c *crowd) intend(n int) {
	name := intentName(n)
	var clients sync.WaitGroup
	for i := range duplicates {
		clients.Go(func() { c.persist(name, n, n+i) })
	}
	clients.Wait()
}

// persist is one client: it begins at one node, and goes on to the next one
// with the same key as long as it is told to come again.
func (c *crowd) persist(name string, n, node int) {
	in := intent(name)
	doubt := "" // the effect whose commit was not answered
	for deadline := time.Now().Add(patience); ; node++ {
		at := node % len(c.pools)
		token := name + "-" + rand.Text()
		begun := time.Now()
		res, err := c.try(at, in, n%wallets, token)
		switch {
		case err == nil:
			c.check(at, begun, name, string(res.Outcome.Body), res.Replayed)
			if doubt != "" && string(res.Outcome.Body) == doubt {
				c.kept.Add(1)
			}
			return
		case errors.Is(err, onlyonce.ErrCommitUnknown):
			c.doubts.Add(1)
			doubt = token
		case !again(err):
			c.t.Errorf("%s at node %d: %v", name, at, err)
			return
		}
		if time.Now().After(deadline) {
			c.t.Errorf("%s had no outcome in %v: %v", name, patience, err)
			return
		}
		time.Sleep(retry)
	}
}

func intentName(n int) string { return fmt.Sprintf("intent-%d", n) }

func intent(name string) onlyonce.Intent {
	return onlyonce.Intent{
		Key: onlyonce.Key{Account: account, Name: name}, Operation: "clusters.take",
		Fingerprint: onlyonce.NewFingerprint([]byte(name)),
	}
}

// again reports whether an error tells its client to come again with the same
// key. What the cluster itself says of races must not be among what is told.
func again(err error) bool {
	return errors.Is(err, onlyonce.ErrInFlight) || errors.Is(err, sqlstore.ErrUnavailable) ||
		errors.Is(err, onlyonce.ErrTransactionLost)
}

// try takes 1 from a wallet and says so in a row of its own, whose token is the
// outcome.
func (c *crowd) try(at int, in onlyonce.Intent, wallet int, token string) (sqlstore.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return sqlstore.Do(ctx, c.once, c.pools[at], in, func(tx *sql.Tx) (onlyonce.Outcome, error) {
		_, err := tx.Exec(c.rebind(`INSERT INTO clusters_effects (token, intent) VALUES (?, ?)`), token, in.Key.Name)
		if err == nil {
			_, err = tx.Exec(c.rebind(`UPDATE clusters_wallets SET balance = balance - 1 WHERE id = ?`), wallet)
		}
		return onlyonce.Outcome{Status: 201, Body: []byte(token)}, err
	})
}

// check keeps what the first client was told and compares with it what the
// others are. A node that had been cut off before the call can't have done it.
func (c *crowd) check(at int, begun time.Time, name, body string, replayed bool) {
	c.successes.Add(1)
	if since := c.cutOff[at].Load(); since != 0 && begun.UnixNano() > since {
		c.t.Errorf("%s was done at node %d, which is cut off (replayed: %v)", name, at, replayed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if first, ok := c.told[name]; ok && first != body {
		c.t.Errorf("%s: one client was told %s, another %s", name, first, body)
		return
	}
	c.told[name] = body
}

// resumed waits until clients succeed again, and returns how long that took.
func (c *crowd) resumed() time.Duration {
	c.t.Helper()
	return c.answered(workers*duplicates + 1) // the first ones may have been on their way before
}

// pace is how many effects a second are done and acknowledged.
func (c *crowd) pace() int {
	c.t.Helper()
	const measured = 150 // effects
	return int(measured / c.answered(measured*duplicates).Seconds())
}

// answered waits for the next n answers, and returns how long they took.
func (c *crowd) answered(n int64) time.Duration {
	c.t.Helper()
	begun, had := time.Now(), c.successes.Load()
	eventually(c.t, fmt.Sprintf("%d more answers", n), func() bool { return c.successes.Load() >= had+n })
	return time.Since(begun)
}

// audit holds what the clients were told against what a node has stored.
func (c *crowd) audit(node int) {
	c.t.Helper()
	effects := map[string][]string{} // by intent
	c.each(node, `SELECT intent, token FROM clusters_effects`, func(name, token string) {
		effects[name] = append(effects[name], token)
	})
	outcomes := map[string]string{}
	c.each(node, `SELECT idempotency_key, response_body FROM idempotency_keys WHERE status = 'completed'`,
		func(name, body string) { outcomes[name] = body })
	doubled, lost := 0, 0
	for name, tokens := range effects {
		if len(tokens) > 1 {
			doubled++
			c.t.Errorf("%s happened %d times: %s", name, len(tokens), strings.Join(tokens, " "))
		}
	}
	for name, body := range c.told {
		if len(effects[name]) == 0 || effects[name][0] != body || outcomes[name] != body {
			lost++
			c.t.Errorf("%s: its clients were told %s, and stored are the effect %v and the outcome %q",
				name, body, effects[name], outcomes[name])
		}
	}
	if len(effects) != len(outcomes) || len(effects) != len(c.told) {
		c.t.Errorf("%d intents have an effect, %d an outcome, and clients know of %d", len(effects), len(outcomes),
			len(c.told))
	}
	c.each(node, `SELECT 'all', CAST(SUM(balance) AS CHAR(20)) FROM clusters_wallets`, func(_, sum string) {
		if want := strconv.Itoa(wallets*opening - len(effects)); strings.TrimSpace(sum) != want {
			c.t.Errorf("the wallets hold %s, want %s", sum, want)
		}
	})
	c.t.Logf("%d intents, %d answers; %d commits were unknown, %d of them were durable; effects doubled: %d, "+
		"acknowledged outcomes lost: %d", len(effects), c.successes.Load(), c.doubts.Load(), c.kept.Load(), doubled, lost)
}

// each reads rows of two texts.
func (c *crowd) each(node int, query string, row func(a, b string)) {
	c.t.Helper()
	rows, err := c.pools[node].QueryContext(c.t.Context(), query)
	if err != nil {
		c.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var a, b []byte
		if err := rows.Scan(&a, &b); err != nil {
			c.t.Fatal(err)
		}
		row(string(a), string(b))
	}
	if err := rows.Err(); err != nil {
		c.t.Fatal(err)
	}
}
