package clusters_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/cluster"
)

// The primary is killed with kill -9 under load and its synchronous standby
// promoted, again and again. Each intent happens once, and nothing that a
// client was told is lost.
func TestPostgresIsPromoted(t *testing.T) {
	promotions := rounds(t, "PROMOTIONS", 10)
	p := cluster.NewPostgresPair(t)
	c := newCrowd(t, onPair(t, p))
	var promotes, pauses []time.Duration
	var fast, after int
	c.press(func() {
		c.resumed()
		fast = c.pace()
		for range promotions {
			begun := time.Now()
			p.KillPrimary()
			p.Promote()
			promotes = append(promotes, time.Since(begun))
			c.resumed()
			pauses = append(pauses, time.Since(begun))
			p.Rebuild()
			c.resumed()
		}
		after = c.pace()
	})
	c.audit(0)
	t.Logf("%d promotions; from the kill to the end of the promotion %v, to the next outcomes %v; effects a second: "+
		"%d before, %d after", promotions, spread(promotes), spread(pauses), fast, after)
}

// onPair makes a database and returns the URL that leads to whichever member
// takes writes.
func onPair(t *testing.T, p *cluster.PostgresPair) string {
	t.Helper()
	makeDatabase(t, p.URLs[p.Primary()], "crowd")
	var hosts []string
	for _, member := range p.URLs {
		u, err := url.Parse(member)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, u.Host)
	}
	return "postgres://postgres@" + strings.Join(hosts, ",") + "/crowd"
}

func makeDatabase(t *testing.T, server, name string) {
	t.Helper()
	db, err := engines.Open(server)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
}
