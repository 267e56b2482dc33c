package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/daemon"
	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// Variable is the environment variable that asks for clusters when it is 1.
const Variable = "ONLYONCE_CLUSTERS"

// Main runs the tests of a package that needs clusters and returns the exit
// status, for its TestMain. Unless clusters are asked for it runs none and
// says so loudly.
func Main(m *testing.M) int {
	if os.Getenv(Variable) != "1" {
		fmt.Fprintln(os.Stderr, "CLUSTERS NOT RUN: make clusters runs these tests, or "+Variable+"=1")
		return 0
	}
	return m.Run()
}

const (
	// changeWait bounds a change of a cluster, as a node's coming back. It is
	// several times what the slowest one takes.
	changeWait = 90 * time.Second

	// pollEvery is how often a server is asked whether a change has come.
	pollEvery = 20 * time.Millisecond
)

// house makes a site that goes with the test and the store of software.
func house(t testing.TB) (*daemon.Site, *software.Store) {
	t.Helper()
	log := &software.Log{Out: t.Output(), Now: time.Now}
	store, err := software.NewStore(os.Getenv(software.DirVariable), log)
	if err != nil {
		t.Fatal(err)
	}
	site, err := daemon.NewSite(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := site.Close(); err != nil {
			t.Error(err)
		}
	})
	return site, store
}

// within bounds a change of a cluster. It does not end with the test, because
// cleanups change clusters too.
func within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), changeWait)
}

// until asks a server again and again whether a change has come.
func until(t testing.TB, what, url string, ask func(ctx context.Context, db *sql.DB) (bool, error)) {
	t.Helper()
	ctx, cancel := within()
	defer cancel()
	db, err := engines.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		done, err := ask(ctx, db)
		if err == nil && done {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s: it has not come in %v: %v", what, changeWait, errors.Join(err, ctx.Err()))
		case <-tick.C:
		}
	}
}

// execute runs one statement on a server.
func execute(t testing.TB, url, statement string) {
	t.Helper()
	ctx, cancel := within()
	defer cancel()
	db, err := engines.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
