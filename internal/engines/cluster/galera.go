package cluster

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/daemon"
)

const nodes = 3 // the smallest number of which one can be lost

// Galera is a MariaDB cluster of three nodes that all take writes.
type Galera struct {
	// Nodes are the administrator's URLs. They stay the same for the
	// cluster's life.
	Nodes [nodes]string

	t        testing.TB
	site     *daemon.Site
	members  [nodes]member
	isolated [nodes]bool
}

// member is one node.
type member struct {
	spec   daemon.Spec
	sql    int // the port for clients
	group  int // the port for the other nodes
	server *daemon.Server
}

// NewGalera brings up a cluster that goes with the test, with every node
// synced.
func NewGalera(t testing.TB) *Galera {
	t.Helper()
	site, store := house(t)
	ctx, cancel := within()
	defer cancel()
	programs, err := store.Galera(ctx)
	if err != nil {
		t.Fatal(err)
	}
	g := &Galera{t: t, site: site}
	for i := range g.members {
		m := &g.members[i]
		m.spec, err = site.MariaDBSpec(fmt.Sprintf("node-%d", i), programs)
		var errSQL, errGroup error
		m.sql, errSQL = site.Port()
		m.group, errGroup = site.Port()
		if err := errors.Join(err, errSQL, errGroup); err != nil {
			t.Fatal(err)
		}
		m.spec.Ask = askNode(m.spec.Ask)
		g.Nodes[i] = m.spec.URL(m.sql)
	}
	t.Cleanup(g.discard)
	for i := range g.members {
		if err := g.configure(i); err != nil {
			t.Fatal(err)
		}
	}
	g.found(ctx)
	return g
}

// askNode makes a node ready only when it has all that the others have.
func askNode(single func(context.Context, string) (string, string, error)) func(context.Context, string) (
	string, string, error) {
	return func(ctx context.Context, url string) (data, version string, err error) {
		state, err := status(ctx, url, "wsrep_local_state_comment")
		if err == nil && state != "Synced" {
			err = fmt.Errorf("the node is %s, not Synced", state)
		}
		if err != nil {
			return "", "", err
		}
		return single(ctx, url)
	}
}

// status reads one of a node's status variables. SHOW is what a node answers
// even when it has lost the others.
func status(ctx context.Context, url, name string) (string, error) {
	db, err := engines.Open(url)
	if err != nil {
		return "", err
	}
	defer db.Close()
	var value string
	err = db.QueryRowContext(ctx, "SHOW STATUS LIKE '"+name+"'").Scan(&name, &value)
	return value, err
}

// configure writes the node's file. The timeouts are shorter than Galera's
// own, so that a lost node holds up the others for one second and not for six.
func (g *Galera) configure(i int) error {
	m := &g.members[i]
	library, err := m.spec.Programs.GaleraLibrary()
	if err != nil {
		return err
	}
	var group []string
	for _, other := range g.members {
		group = append(group, daemon.Loopback(other.group))
	}
	transfer, err := g.site.Port()
	if err != nil {
		return err
	}
	increment, err := g.site.Port()
	if err != nil {
		return err
	}
	options := []string{
		"gmcast.listen_addr=tcp://" + daemon.Loopback(m.group), "ist.recv_addr=" + daemon.Loopback(increment),
		"gcache.size=64M", "evs.keepalive_period=PT0.2S", "evs.inactive_check_period=PT0.2S",
		"evs.suspect_timeout=PT1S", "evs.inactive_timeout=PT3S", "evs.install_timeout=PT2S",
		"evs.join_retrans_period=PT0.3S",
	}
	settings := []string{
		"[mysqld]", "wsrep_on=ON", "wsrep_provider=" + library, "wsrep_cluster_name=onlyonce",
		"wsrep_cluster_address=gcomm://" + strings.Join(group, ","),
		fmt.Sprintf("wsrep_node_name=node-%d", i),
		"wsrep_node_address=" + daemon.Loopback(m.group),
		"wsrep_node_incoming_address=" + daemon.Loopback(m.sql),
		"wsrep_sst_method=rsync", "wsrep_sst_receive_address=" + daemon.Loopback(transfer),
		"wsrep_slave_threads=2", `wsrep_provider_options="` + strings.Join(options, ";") + `"`,
		"binlog_format=ROW", "default_storage_engine=InnoDB", "innodb_autoinc_lock_mode=2", "",
	}
	file, err := m.spec.Write("node.cnf", strings.Join(settings, "\n"))
	if err != nil {
		return err
	}
	single := m.spec.Args
	m.spec.Args = func(port int) []string {
		// The file stands for the system's, and must come first.
		return append([]string{"--defaults-file=" + file}, single(port)[1:]...)
	}
	return nil
}

// found makes the cluster. One node is the cluster for a moment, and the others
// begin with a copy of its data: they then need only what came after.
func (g *Galera) found(ctx context.Context) {
	g.t.Helper()
	first := &g.members[0]
	if _, err := first.spec.Run(ctx, "mariadb-install-db", daemon.InitMariaDB(first.spec)...); err != nil {
		g.t.Fatal(err)
	}
	g.start(ctx, 0, "--wsrep-new-cluster")
	if err := first.server.Stop(); err != nil {
		g.t.Fatal(err)
	}
	for i := 1; i < nodes; i++ {
		m := &g.members[i]
		if err := m.spec.CopyData(first.spec.Data, "galera.cache", "gvwstate.dat"); err != nil {
			g.t.Fatal(err)
		}
	}
	g.start(ctx, 0, "--wsrep-new-cluster")
	for i := 1; i < nodes; i++ {
		g.start(ctx, i) // one after the other: two that join at once take longer
	}
	g.WaitSynced()
}

func (g *Galera) start(ctx context.Context, i int, args ...string) {
	g.t.Helper()
	spec := g.members[i].spec
	own := spec.Args
	spec.Args = func(port int) []string { return append(own(port), args...) }
	server, err := g.site.Start(ctx, spec, g.members[i].sql)
	if err != nil {
		g.t.Fatal(err)
	}
	g.members[i].server = server
}

// KillNode ends a node with kill -9.
func (g *Galera) KillNode(i int) {
	g.t.Helper()
	if err := g.members[i].server.Kill(); err != nil {
		g.t.Fatal(err)
	}
	g.members[i].server = nil
}

// Rejoin starts a node that was killed and returns when it is synced. The node
// says how far it came, so that the others send it only what it missed.
func (g *Galera) Rejoin(i int) {
	g.t.Helper()
	ctx, cancel := within()
	defer cancel()
	m := &g.members[i]
	said, err := m.spec.Run(ctx, m.spec.Program, append(m.spec.Args(m.sql), "--wsrep-recover")...)
	if err != nil {
		g.t.Fatal(err)
	}
	position := regexp.MustCompile(`Recovered position: (\S+)`).FindStringSubmatch(said)
	if position == nil {
		g.t.Fatalf("node %d did not say how far it came:\n%s", i, said)
	}
	g.start(ctx, i, "--wsrep-start-position="+position[1])
}

// Isolate cuts a node off from the others, or connects it again, and returns
// when the node has noticed: it refuses all work, or is synced.
func (g *Galera) Isolate(i int, cut bool) {
	g.t.Helper()
	option := map[bool]string{true: "gmcast.isolate=1", false: "gmcast.isolate=0"}[cut]
	execute(g.t, g.Nodes[i], "SET GLOBAL wsrep_provider_options = '"+option+"'")
	g.isolated[i] = cut
	if !cut {
		g.WaitSynced(i)
		return
	}
	until(g.t, "the node sees that it is alone", g.Nodes[i], func(ctx context.Context, _ *sql.DB) (bool, error) {
		state, err := status(ctx, g.Nodes[i], "wsrep_cluster_status")
		return err == nil && state != "Primary", err
	})
}

// WaitSynced waits until the given nodes, or else all that are neither killed
// nor cut off, are synced and see each other.
func (g *Galera) WaitSynced(which ...int) {
	g.t.Helper()
	var alive []int
	for i := range g.members {
		if g.members[i].server != nil && !g.isolated[i] {
			alive = append(alive, i)
		}
	}
	if len(which) == 0 {
		which = alive
	}
	for _, i := range which {
		until(g.t, fmt.Sprintf("node %d is synced", i), g.Nodes[i], func(ctx context.Context, _ *sql.DB) (bool, error) {
			state, err := status(ctx, g.Nodes[i], "wsrep_local_state_comment")
			if err != nil || state != "Synced" {
				return false, err
			}
			size, err := status(ctx, g.Nodes[i], "wsrep_cluster_size")
			return size == fmt.Sprint(len(alive)), err
		})
	}
}

func (g *Galera) discard() {
	for _, m := range g.members {
		if m.server == nil {
			continue
		}
		if err := m.server.Discard(); err != nil {
			g.t.Error(err)
		}
	}
}
