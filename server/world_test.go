package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/flow"
	"github.com/onlyonce-go/onlyonce/payments/provider"
	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
	"github.com/onlyonce-go/onlyonce/payments/provider/stripe"
	"github.com/onlyonce-go/onlyonce/server"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

const (
	keyA = "test_a_0123456789abcdef" // signs account A in
	keyB = "test_b_0123456789abcdef"

	// patience bounds what a test waits for before it gives up; nothing that
	// works needs nearly as long.
	patience = 20 * time.Second
)

// setup is what a test wants of its world; the zero value is an ordinary one.
type setup struct {
	providerTimeout time.Duration
	slowBy          time.Duration
	engine          onlyonce.Options
	busyWait        time.Duration
	server          server.Options
	provider        func(provider.Provider) provider.Provider
}

// world is a whole server over a real database and the real sandbox.
type world struct {
	t        *testing.T
	dir      string
	store    *sqlstore.DB
	db       *db.DB
	engine   *onlyonce.Engine
	flow     *flow.Flow
	resolver *flow.Resolver
	replays  *flow.ReplayCounter
	server   *server.Server
	url      string
	ledgerAt string
	skew     atomic.Int64 // of the database's clock
	gate     atomic.Pointer[gate]
	log      *logBuffer
}

// gate stops what is sent to the provider until it is opened.
type gate struct {
	arrived chan struct{}
	opened  chan struct{}
	once    sync.Once
}

func newWorld(t *testing.T, o setup) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), log: &logBuffer{}}
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.openStore(o, log)
	client := w.openProvider(o, log)
	if o.provider != nil {
		client = o.provider(client)
	}
	o.engine.Store = w.store.Store()
	w.engine = must(onlyonce.New(o.engine))(t)
	w.db = db.New(w.store, w.engine, db.PlainSealer())
	waiters := o.server.Waiters
	if waiters == nil {
		waiters = &httponce.Waiters{}
	}
	w.flow = must(flow.New(flow.Options{
		DB: w.db, Engine: w.engine, Provider: client, ProviderTimeout: o.providerTimeout,
		Installation: must(w.store.Installation(t.Context()))(t),
		Render:       server.Render, Settled: waiters.Wake, Log: log,
	}))(t)
	w.resolver = &flow.Resolver{Flow: w.flow, Log: log}
	w.replays = &flow.ReplayCounter{DB: w.db}
	for secret, account := range map[string]string{keyA: "A", keyB: "B"} {
		w.addKey(db.APIKey{Account: account, Hash: db.HashKey(secret), Role: db.RoleAccount})
	}
	o.server.DB, o.server.Store, o.server.Flow = w.db, w.store, w.flow
	o.server.Waiters, o.server.Replays, o.server.Log = waiters, w.replays, log
	o.server.Version = "v0.0.0-test"
	w.server = must(server.New(o.server))(t)
	front := httptest.NewUnstartedServer(nil)
	front.Config = w.server.HTTP("")
	front.Start()
	t.Cleanup(front.Close)
	w.url = front.URL
	return w
}

func (w *world) openStore(o setup, log *slog.Logger) {
	w.t.Helper()
	w.store = must(sqlstore.Open(w.t.Context(), "sqlite:"+w.file(), sqlstore.Options{
		Skew: func() time.Duration { return time.Duration(w.skew.Load()) }, BusyWait: o.busyWait, Log: log,
	}))(w.t)
	w.t.Cleanup(func() { _ = w.store.Close() }) // some tests close it themselves
	must(w.store.Migrate(w.t.Context(), sqlstore.EngineMigrations(), db.Migrations()))(w.t)
}

func (w *world) file() string { return filepath.Join(w.dir, "onlyonce.db") }

func (w *world) openProvider(o setup, log *slog.Logger) provider.Provider {
	w.t.Helper()
	box := must(sandbox.Open(w.t.Context(), sandbox.Options{
		Path: filepath.Join(w.dir, "sandbox.db"), SlowBy: o.slowBy,
	}))(w.t)
	back := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if g := w.gate.Load(); g != nil && r.Method == http.MethodPost {
			g.arrived <- struct{}{}
			<-g.opened
		}
		box.Handler().ServeHTTP(rw, r)
	}))
	w.t.Cleanup(back.Close)
	w.t.Cleanup(func() { _ = box.Close() }) // first: it lets go of held connections
	w.ledgerAt = back.URL + "/sandbox/ledger"
	return must(stripe.New(stripe.Options{
		URL: back.URL, Key: "sk_test_sandbox", Instance: "sandbox:" + box.ID(), Facts: box.Facts(),
		Timeout: o.providerTimeout, Log: log,
	}))(w.t)
}

func (w *world) addKey(k db.APIKey) {
	w.t.Helper()
	if err := w.db.AddAPIKey(w.t.Context(), k); err != nil {
		w.t.Fatal(err)
	}
}

// hold stops sends to the provider from here on. The caller waits for arrived
// and calls open.
func (w *world) hold() *gate {
	g := &gate{arrived: make(chan struct{}, 100), opened: make(chan struct{})}
	w.gate.Store(g)
	w.t.Cleanup(func() { w.open(g) }) // a failed test must not hang
	return g
}

func (w *world) open(g *gate) {
	w.gate.Store(nil)
	g.once.Do(func() { close(g.opened) })
}

// sweep moves the database's clock on and looks at what is unknown then.
func (w *world) sweep(after time.Duration) {
	w.t.Helper()
	w.skew.Add(int64(after))
	if _, err := w.resolver.Sweep(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// moved is a line of the provider's own ledger.
type moved struct {
	ID, Type, Currency, IdempotencyKey string
	Amount                             int64
	Metadata                           map[string]string
}

// ledger reads what the provider itself says has moved.
func (w *world) ledger() []moved {
	w.t.Helper()
	r := must(http.Get(w.ledgerAt))(w.t)
	defer r.Body.Close()
	var list struct{ Data []moved }
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		w.t.Fatal(err)
	}
	return list.Data
}

// wantMoved compares the ledger with lines like "charge 1000 usd", in order.
func (w *world) wantMoved(lines ...string) {
	w.t.Helper()
	var got []string
	for _, m := range w.ledger() {
		got = append(got, fmt.Sprintf("%s %d %s", m.Type, m.Amount, m.Currency))
	}
	if strings.Join(got, ", ") != strings.Join(lines, ", ") {
		w.t.Errorf("the provider's ledger has %q, want %q", got, lines)
	}
}

// call is one request to the server. The zero value of APIKey is account A's.
type call struct {
	Method, Path string
	Key          string // Idempotency-Key; "" sends none
	Body         string
	APIKey       string
	Header       http.Header // beside those that follow from the other members
}

func pay(key, body string) call {
	return call{Method: "POST", Path: "/payments", Key: key, Body: body}
}

func refund(payment, key, body string) call {
	return call{Method: "POST", Path: "/payments/" + payment + "/refunds", Key: key, Body: body}
}

func get(path string) call { return call{Method: "GET", Path: path} }

// with returns the call with one more header.
func (c call) with(name, value string) call {
	c.Header = c.Header.Clone()
	if c.Header == nil {
		c.Header = http.Header{}
	}
	c.Header.Add(name, value)
	return c
}

func (c call) request(ctx context.Context, url string) (*http.Request, error) {
	var body io.Reader
	if c.Method == http.MethodPost {
		body = strings.NewReader(c.Body)
	}
	r, err := http.NewRequestWithContext(ctx, c.Method, url+c.Path, body)
	if err != nil {
		return nil, err
	}
	if c.APIKey == "" {
		c.APIKey = keyA
	}
	r.Header.Set("Authorization", "Bearer "+c.APIKey)
	if c.Method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Key != "" {
		r.Header.Set("Idempotency-Key", c.Key)
	}
	for name, values := range c.Header {
		r.Header[name] = values // nil takes one away
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	return r, nil
}

// send makes a call and holds its answer to openapi.yaml. It may be used from
// several goroutines.
func (w *world) send(c call) reply {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 2*patience)
	defer cancel()
	r, err := c.request(ctx, w.url)
	if err != nil {
		w.t.Error(err)
		return reply{t: w.t}
	}
	resp, err := client.Do(r)
	if err != nil {
		w.t.Error(err)
		return reply{t: w.t}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Error(err)
	}
	got := reply{w.t, resp.StatusCode, resp.Header, body}
	got.obeys(r)
	return got
}

// client follows no redirect: the API has none.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// together sends all calls at once and returns their answers in order.
func (w *world) together(calls ...call) []reply {
	w.t.Helper()
	replies := make([]reply, len(calls))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, c := range calls {
		wg.Go(func() {
			<-start
			replies[i] = w.send(c)
		})
	}
	close(start)
	wg.Wait()
	return replies
}

// later sends a call in the background.
func (w *world) later(c call) <-chan reply {
	done := make(chan reply, 1)
	go func() { done <- w.send(c) }()
	return done
}

// within returns what comes out of the channel, or fails the test.
func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("it did not happen in time")
		panic("unreachable")
	}
}

// until asks again and again until the condition holds, or fails the test.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range int(patience / (5 * time.Millisecond)) {
		if condition() {
			return
		}
		<-tick.C
	}
	t.Fatal("it did not happen in time")
}

// must fails the test on an error: must(f())(t).
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// logBuffer keeps the log's lines.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
