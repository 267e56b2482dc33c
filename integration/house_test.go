package integration_test

import (
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

const (
	account = "17"
	apiKey  = "oo_test_integration_17"

	// The timings of brisk, and what a test allows beyond them.
	lease      = 3 * time.Second
	sweepEvery = 200 * time.Millisecond
	slack      = slowness * 8 * time.Second // the first looks at an unknown (1, 2, 4 s), and a busy machine
)

// brisk are timings that let a test see a lease lapse.
func brisk() []string {
	return []string{"--lease", lease.String(), "--provider-timeout", "1s", "--commit-wait", "1s",
		"--sweep-every", sweepEvery.String(), "--log-level", "debug"}
}

// unhurried are timings for tests in which nothing may be sent twice only
// because a machine is slow.
func unhurried() []string { return []string{"--lease", "30s", "--provider-timeout", "15s"} }

// house is a folder with one database, its provider, and the servers on it.
type house struct {
	t        *testing.T
	dir      string
	store    []string // flags that lead a server to the database, if not to the file in its folder
	db       database
	box      database // the sandbox's own file
	ledgerAt string   // base URL of the process that shows the provider's ledger
	sandbox  *process // the provider's process, if it has one
	provider []string // flags that lead a server to the provider
	proxy    *proxy   // between the servers and the provider, if there is one
	told     sync.Map // the successes that clients were told of in a storm, by key
}

// grounds are the engines on which the promises are proved: SQLite, and one
// server of each kind. The others have passed the same contract in storetest.
func grounds(t *testing.T, test func(t *testing.T, e engines.Engine)) {
	t.Helper()
	for _, e := range engines.Named(t, engines.SQLite, engines.Postgres15, engines.MySQL) {
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			test(t, e)
		})
	}
}

// connections is what a server of ours may take: less than by default, because
// many tests share one database server.
const connections = "8"

// newHouse has the provider in a process of its own, behind a proxy: killing a
// server leaves it alone.
func newHouse(t *testing.T) *house {
	t.Helper()
	return newHouseOn(t, engines.Engine{Name: engines.SQLite})
}

// newHouseOn is newHouse with its database on an engine.
func newHouseOn(t *testing.T, e engines.Engine) *house {
	t.Helper()
	dir := t.TempDir()
	address := freeAddress(t)
	h := &house{t: t, dir: dir, ledgerAt: "http://" + address, proxy: newProxy(t, "http://"+address)}
	h.startSandbox()
	h.db, h.box = fileAt(t, filepath.Join(dir, "onlyonce.db")), fileAt(t, filepath.Join(dir, "provider.db"))
	if e.Name != engines.SQLite {
		url := e.Database(t)
		h.use(url, database{t: t, dialect: e.Dialect, pool: e.SQL(t, url)})
	}
	h.provider = []string{"--provider", "stripe", "--stripe-url", h.proxy.url, "--stripe-key", "sk_test_integration"}
	return h
}

// use leads servers to a database by its URL, and the test to the same by
// another way.
func (h *house) use(url string, db database) {
	h.db, h.store = db, []string{"--db", url, "--db-conns", connections}
}

// startSandbox starts the provider, or starts it again, where it was.
func (h *house) startSandbox() {
	h.t.Helper()
	address := strings.TrimPrefix(h.ledgerAt, "http://")
	h.sandbox = start(h.t, spec{dir: h.dir, args: []string{"sandbox", "--listen", address, "--sandbox-db", "provider.db"}})
	h.sandbox.answers(h.ledgerAt + "/sandbox/ledger")
}

// newInProcessHouse has the sandbox inside the server. The ledger is then
// shown by the server itself.
func newInProcessHouse(t *testing.T) *house {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "onlyonce.db")
	return &house{t: t, dir: dir, db: fileAt(t, file), box: fileAt(t, file+"-sandbox")}
}

// server is a process that serves, and a client that is signed in to it.
type server struct {
	*process
	client
}

// serve starts a server on the house's database and waits until it is ready.
// Later flags win over earlier ones.
func (h *house) serve(flags ...string) server {
	h.t.Helper()
	return h.serveWith(spec{}, flags...)
}

func (h *house) serveWith(s spec, flags ...string) server {
	h.t.Helper()
	address := freeAddress(h.t)
	s.dir = h.dir
	s.args = append([]string{"serve", "--listen", address, "--account", account + "=" + apiKey}, h.provider...)
	s.args = slices.Concat(s.args, h.store, brisk(), flags)
	p := start(h.t, s)
	base := "http://" + address
	p.answers(base + "/readyz")
	if h.proxy == nil {
		h.ledgerAt = base
	}
	return server{p, client{t: h.t, base: base, key: apiKey}}
}

// ledger reads the provider's own ledger: the money that has moved.
func (h *house) ledger() []entry {
	h.t.Helper()
	return readLedger(h.t, h.ledgerAt)
}

// moved checks that the provider's ledger holds exactly these entries, in any
// order, each written as its type and amount: "charge 2500".
func (h *house) moved(want ...string) {
	h.t.Helper()
	got := map[string]int{}
	for _, e := range h.ledger() {
		got[e.text()]++
	}
	total := 0
	for _, w := range want {
		got[w]--
		total++
	}
	for text, n := range got {
		if n != 0 {
			h.t.Errorf("the provider's ledger has %d %q more than it should", n, text)
		}
	}
	if n := len(h.ledger()); n != total {
		h.t.Errorf("the provider's ledger has %d entries, want %d", n, total)
	}
}
