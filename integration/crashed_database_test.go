package integration_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/daemon"
	"github.com/onlyonce-go/onlyonce/internal/engines/software"
)

// ownServer is a database server of the test's own, which it may kill.
type ownServer struct {
	t      *testing.T
	site   *daemon.Site
	spec   daemon.Spec
	port   int
	server *daemon.Server
}

// serverWait bounds one start of a database server.
const serverWait = 2 * time.Minute

// startOwn makes a new server of the engine's kind and starts it.
func startOwn(t *testing.T, e engines.Engine) *ownServer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), serverWait)
	defer cancel()
	log := &software.Log{Out: t.Output(), Now: time.Now}
	store, err := software.NewStore(os.Getenv(software.DirVariable), log)
	if err != nil {
		t.Fatal(err)
	}
	o := &ownServer{t: t}
	if o.site, err = daemon.NewSite(log); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.site.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := o.makeData(ctx, store, e); err != nil {
		t.Fatal(err)
	}
	if o.port, err = o.site.Port(); err != nil {
		t.Fatal(err)
	}
	o.start()
	t.Cleanup(func() {
		if err := o.server.Discard(); err != nil {
			t.Error(err)
		}
	})
	return o
}

func (o *ownServer) makeData(ctx context.Context, store *software.Store, e engines.Engine) error {
	if e.Dialect == "postgres" {
		programs, err := store.Postgres(ctx, 15)
		if err != nil {
			return err
		}
		if o.spec, err = o.site.PostgresSpec(e.Name, programs); err != nil {
			return err
		}
		_, err = o.spec.Run(ctx, "initdb", daemon.InitPostgres(o.spec)...)
		return err
	}
	programs, err := store.MariaDB(ctx)
	if err != nil {
		return err
	}
	if o.spec, err = o.site.MariaDBSpec(e.Name, programs); err != nil {
		return err
	}
	_, err = o.spec.Run(ctx, "mariadb-install-db", daemon.InitMariaDB(o.spec)...)
	return err
}

// start starts the server on its data, at its port. PostgreSQL refuses while
// the last of a killed server's processes has not noticed that it is alone.
func (o *ownServer) start() {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), serverWait)
	defer cancel()
	var err error
	eventually(o.t, serverWait, "the database server", func() bool {
		var server *daemon.Server
		if server, err = o.site.Start(ctx, o.spec, o.port); err == nil {
			o.server = server
		}
		return err == nil || !strings.Contains(err.Error(), "still in use")
	})
	if err != nil {
		o.t.Fatal(err)
	}
}

// kill is kill -9 of the server and of all its processes.
func (o *ownServer) kill() {
	o.t.Helper()
	if err := o.server.Kill(); err != nil {
		o.t.Fatal(err)
	}
}

// house is newHouseOn with its database on the server.
func (o *ownServer) house(e engines.Engine) *house {
	o.t.Helper()
	e.URL = o.server.URL
	return newHouseOn(o.t, e)
}

const (
	databaseKills = 3
	databaseEvery = 9 // sends to the provider
)

// The database server is killed with kill -9 and started again, several times,
// while clients pay. What it had acknowledged it has kept, so that each of them
// pays once.
func TestDatabaseServerIsKilled(t *testing.T) {
	t.Parallel()
	onServers(t, testDatabaseServerIsKilled)
}

func testDatabaseServerIsKilled(t *testing.T, e engines.Engine) {
	own := startOwn(t, e)
	h := own.house(e)
	s := h.serve("--lease", "4s", "--provider-timeout", "2s")
	kill := make(chan struct{}, databaseKills)
	var sends atomic.Int64
	h.proxy.does(func(p *passage) {
		if n := sends.Add(1); n%databaseEvery == 0 && n <= databaseKills*databaseEvery {
			kill <- struct{}{} // while this passage, and others, are under way
		}
		p.pass()
	})
	var clients sync.WaitGroup
	for i := range stormClients {
		clients.Go(func() { h.payAndGiveBack(func() server { return s }, i) })
	}
	done := make(chan struct{})
	go func() {
		clients.Wait()
		close(done)
	}()
	for kills := 0; ; {
		select {
		case <-kill:
			own.kill()
			own.start()
			kills++
			continue
		case <-done:
		}
		if kills < databaseKills {
			t.Errorf("the database was killed only %d times", kills)
		}
		break
	}
	h.checkStorm(s, stormClients)
}
