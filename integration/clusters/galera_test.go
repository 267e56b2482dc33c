package clusters_test

import (
	"slices"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines/cluster"
)

// Clients write at all three nodes at once, although one at a time is the
// documented way, while nodes are killed with kill -9 and come back, and one is
// cut off. Each intent happens once, all its clients are told the same, and
// nothing that a client was told is lost.
func TestGaleraLosesNodes(t *testing.T) {
	kills := rounds(t, "KILLS", 20)
	g := cluster.NewGalera(t)
	c := newCrowd(t, onGalera(t, g)...)
	var pauses, returns []time.Duration
	var fast, degraded, after int
	c.press(func() {
		c.resumed()
		fast = c.pace()
		for round := range kills {
			victim := round % len(g.Nodes)
			g.KillNode(victim)
			pauses = append(pauses, c.resumed())
			degraded = c.pace()
			begun := time.Now()
			g.Rejoin(victim)
			g.WaitSynced()
			returns = append(returns, time.Since(begun))
			c.resumed()
		}
		const outcast = 2
		g.Isolate(outcast, true)
		c.cutOff[outcast].Store(time.Now().UnixNano())
		c.resumed()
		c.cutOff[outcast].Store(0)
		g.Isolate(outcast, false)
		c.resumed()
		after = c.pace()
	})
	g.WaitSynced()
	for node := range g.Nodes {
		c.audit(node)
	}
	t.Logf("%d kills; clients waited %v; rejoined after %v; effects a second: %d before, %d on two nodes, %d after",
		kills, spread(pauses), spread(returns), fast, degraded, after)
}

// onGalera makes a database and returns its URL on each node.
func onGalera(t *testing.T, g *cluster.Galera) (urls []string) {
	t.Helper()
	for _, node := range g.Nodes {
		urls = append(urls, node+"crowd?wsrep_sync_wait=7")
	}
	makeDatabase(t, g.Nodes[0], "crowd")
	return urls
}

// Two clients of one key meet at two nodes, again and again: neither waits for
// the other, the loser learns it as late as at COMMIT (case 39), and no client
// hears of it.
func TestGaleraLateLoser(t *testing.T) {
	g := cluster.NewGalera(t)
	c := newCrowd(t, onGalera(t, g)...)
	const meetings = 200
	for n := range meetings {
		c.intend(n)
	}
	c.audit(0)
	if c.doubts.Load() > 0 {
		t.Errorf("%d commits were unknown in a cluster that nobody has touched", c.doubts.Load())
	}
}

// spread is the smallest, the middle and the largest of some times.
func spread(times []time.Duration) []time.Duration {
	slices.Sort(times)
	all := []time.Duration{times[0], times[len(times)/2], times[len(times)-1]}
	for i := range all {
		all[i] = all[i].Round(10 * time.Millisecond)
	}
	return all
}
