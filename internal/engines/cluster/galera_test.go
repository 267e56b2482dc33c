package cluster_test

import (
	"database/sql"
	"fmt"
	"os"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/cluster"
)

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func open(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := engines.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func count(t *testing.T, db *sql.DB, statement string) int {
	t.Helper()
	var n int
	if err := db.QueryRowContext(t.Context(), statement).Scan(&n); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return n
}

// A node that is killed or cut off is missed by nobody, and has everything
// when it is back.
func TestGalera(t *testing.T) {
	g := cluster.NewGalera(t)
	a := open(t, g.Nodes[0])
	exec(t, a, "CREATE DATABASE house")
	exec(t, a, "CREATE TABLE house.kept (id INT PRIMARY KEY)")
	rows := 0
	write := func(node int) {
		t.Helper()
		rows++
		exec(t, open(t, g.Nodes[node]), fmt.Sprintf("INSERT INTO house.kept (id) VALUES (%d)", rows))
	}
	everywhere := func() {
		t.Helper()
		for i, url := range g.Nodes {
			// The parameter makes the read wait for what the node has received.
			if got := count(t, open(t, url+"?wsrep_sync_wait=7"), "SELECT COUNT(*) FROM house.kept"); got != rows {
				t.Errorf("node %d has %d rows of %d", i, got, rows)
			}
		}
	}
	for i := range g.Nodes {
		write(i)
	}
	everywhere()
	for killed := range g.Nodes {
		g.KillNode(killed)
		if err := open(t, g.Nodes[killed]).PingContext(t.Context()); err == nil {
			t.Fatalf("node %d was killed and answers", killed)
		}
		g.WaitSynced()
		write((killed + 1) % 3)
		g.Rejoin(killed)
		g.WaitSynced()
		everywhere()
	}
	g.Isolate(2, true)
	write(0)
	if _, err := open(t, g.Nodes[2]).ExecContext(t.Context(), "INSERT INTO house.kept (id) VALUES (0)"); err == nil {
		t.Error("a node that is cut off took a write")
	}
	g.Isolate(2, false)
	everywhere()
}
