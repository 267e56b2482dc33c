package cluster

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines/daemon"
	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// pairMajor is the version whose pg_basebackup is commonly installed.
const pairMajor = 15

// PostgresPair is a PostgreSQL primary and a standby that every COMMIT waits
// for.
type PostgresPair struct {
	// URLs are the administrator's, of both members. They stay the same for
	// the pair's life; Primary says which one takes writes.
	URLs [2]string

	t        testing.TB
	site     *daemon.Site
	programs software.Programs
	ports    [2]int
	servers  [2]*daemon.Server // nil where none runs
	primary  int
	made     int          // data directories so far
	thaw     func() error // ends what FreezeStandby has stopped; nil if nothing is
}

// NewPostgresPair brings up a pair that goes with the test.
func NewPostgresPair(t testing.TB) *PostgresPair {
	t.Helper()
	site, store := house(t)
	ctx, cancel := within()
	defer cancel()
	programs, err := store.PostgresWithClients(ctx, pairMajor)
	if err != nil {
		t.Fatal(err)
	}
	p := &PostgresPair{t: t, site: site, programs: programs}
	for i := range p.ports {
		if p.ports[i], err = site.Port(); err != nil {
			t.Fatal(err)
		}
		p.URLs[i] = fmt.Sprintf("postgres://postgres@%s/postgres", daemon.Loopback(p.ports[i]))
	}
	t.Cleanup(p.discard)
	spec := p.spec(0)
	if _, err := spec.Run(ctx, "initdb", daemon.InitPostgres(spec)...); err != nil {
		t.Fatal(err)
	}
	p.start(ctx, 0, spec)
	p.Rebuild()
	return p
}

// spec describes a member in a folder of its own. What a standby needs of its
// primary is the same on both, because they change places.
func (p *PostgresPair) spec(member int) daemon.Spec {
	p.t.Helper()
	p.made++
	spec, err := p.site.PostgresSpec(fmt.Sprintf("member-%d-%d", member, p.made), p.programs,
		"wal_level=replica", "max_wal_senders=8", "hot_standby=on", "wal_keep_size=64MB")
	if err != nil {
		p.t.Fatal(err)
	}
	return spec
}

func (p *PostgresPair) start(ctx context.Context, member int, spec daemon.Spec) {
	p.t.Helper()
	server, err := p.site.Start(ctx, spec, p.ports[member])
	if err != nil {
		p.t.Fatal(err)
	}
	p.servers[member] = server
}

// Primary is the index in URLs of the member that takes writes.
func (p *PostgresPair) Primary() int { return p.primary }

// KillPrimary ends the primary with kill -9. Until Promote nothing takes
// writes.
func (p *PostgresPair) KillPrimary() {
	p.t.Helper()
	server := p.servers[p.primary]
	if server == nil {
		p.t.Fatal("the primary has been killed already: Promote comes first")
	}
	segment := sharedMemory(server.Data())
	if err := server.Kill(); err != nil {
		p.t.Fatal(err)
	}
	p.servers[p.primary] = nil
	if segment != "" {
		// The killed server could not return it to the system, and its folder is never started again.
		_ = exec.Command("ipcrm", "-m", segment).Run()
	}
}

// sharedMemory is the number of a server's segment, which stands in line 7 of
// its pid file after the key; "" if it has none.
func sharedMemory(data string) string {
	const line = 7
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	lines := strings.Split(string(text), "\n")
	if err != nil || len(lines) < line {
		return ""
	}
	_, id, _ := strings.Cut(strings.TrimSpace(lines[line-1]), " ")
	return strings.TrimSpace(id)
}

// Promote makes the standby the primary and returns when it takes writes. It
// then has no standby: no COMMIT waits until Rebuild.
func (p *PostgresPair) Promote() {
	p.t.Helper()
	if p.servers[p.primary] != nil {
		p.t.Fatal("the primary is alive: KillPrimary comes first, or both would take writes")
	}
	if err := p.melt(); err != nil {
		p.t.Fatal(err)
	}
	standby := 1 - p.primary
	execute(p.t, p.URLs[standby], "SELECT pg_promote()")
	until(p.t, "the promoted server takes writes", p.URLs[standby], func(ctx context.Context, db *sql.DB) (bool, error) {
		var recovering bool
		err := db.QueryRowContext(ctx, "SELECT pg_is_in_recovery()").Scan(&recovering)
		return !recovering, err
	})
	p.primary = standby
}

// Rebuild copies the primary into a new standby, in the place of the member
// that was killed, and returns when every COMMIT waits for it.
func (p *PostgresPair) Rebuild() {
	p.t.Helper()
	ctx, cancel := within()
	defer cancel()
	standby := 1 - p.primary
	if p.servers[standby] != nil {
		p.t.Fatal("both members are up: there is nothing to rebuild")
	}
	spec := p.spec(standby)
	err := p.site.Log.Step(spec.Name+": copy the primary", func() error {
		_, err := spec.Run(ctx, "pg_basebackup", "-h", "127.0.0.1", "-p", strconv.Itoa(p.ports[p.primary]),
			"-U", "postgres", "-D", spec.Data, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast",
			"--no-sync")
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.start(ctx, standby, spec)
	// Only now: the copy must not hold this setting, or the standby, once promoted, would wait for one of its own.
	execute(p.t, p.URLs[p.primary], "ALTER SYSTEM SET synchronous_standby_names = '*'")
	execute(p.t, p.URLs[p.primary], "SELECT pg_reload_conf()")
	until(p.t, "the standby is synchronous", p.URLs[p.primary], func(ctx context.Context, db *sql.DB) (bool, error) {
		var synchronous bool
		err := db.QueryRowContext(ctx,
			"SELECT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&synchronous)
		return synchronous, err
	})
}

// melt ends what FreezeStandby has stopped, which the end of its server would
// wait for.
func (p *PostgresPair) melt() error {
	thaw := p.thaw
	p.thaw = nil
	if thaw == nil {
		return nil
	}
	return thaw()
}

func (p *PostgresPair) discard() {
	if err := p.melt(); err != nil {
		p.t.Error(err)
	}
	for _, server := range p.servers {
		if server == nil {
			continue
		}
		if err := server.Discard(); err != nil {
			p.t.Error(err)
		}
	}
}
