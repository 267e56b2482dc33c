package cluster_test

import (
	"fmt"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines/cluster"
)

// What was committed is on the standby when the primary is killed, twice in
// turn, so that each member has been both.
func TestPostgresPair(t *testing.T) {
	p := cluster.NewPostgresPair(t)
	exec(t, open(t, p.URLs[0]), "CREATE TABLE kept (id INT PRIMARY KEY)")
	for round := range 2 {
		primary := p.Primary()
		if primary != round {
			t.Fatalf("round %d: member %d is the primary", round, primary)
		}
		db := open(t, p.URLs[primary])
		for i := range 50 {
			exec(t, db, fmt.Sprintf("INSERT INTO kept (id) VALUES (%d)", round*50+i))
		}
		if _, err := open(t, p.URLs[1-primary]).ExecContext(t.Context(), "INSERT INTO kept (id) VALUES (-1)"); err == nil {
			t.Error("the standby took a write")
		}
		p.KillPrimary()
		if err := open(t, p.URLs[primary]).PingContext(t.Context()); err == nil {
			t.Fatal("the primary was killed and answers")
		}
		p.Promote()
		if got, want := count(t, open(t, p.URLs[1-primary]), "SELECT COUNT(*) FROM kept"), (round+1)*50; got != want {
			t.Errorf("round %d: the promoted standby has %d rows of %d", round, got, want)
		}
		p.Rebuild()
	}
}
