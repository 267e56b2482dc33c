package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/daemon"
	"github.com/onlyonce-go/onlyonce/internal/engines/software"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// private starts a server of the test's own, whose settings may be anything.
func private(t *testing.T, name string) *daemon.Server {
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
	var spec daemon.Spec
	if name == engines.MariaDB {
		spec, err = mariaDB(t.Context(), store, site)
	} else {
		spec, err = postgres(t.Context(), store, site)
	}
	if err != nil {
		t.Fatal(err)
	}
	server, err := site.Start(t.Context(), spec, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Discard(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func postgres(ctx context.Context, store *software.Store, site *daemon.Site) (spec daemon.Spec, err error) {
	programs, err := store.Postgres(ctx, 15)
	if err != nil {
		return spec, err
	}
	if spec, err = site.PostgresSpec("private", programs); err != nil {
		return spec, err
	}
	_, err = spec.Run(ctx, "initdb", daemon.InitPostgres(spec)...)
	return spec, err
}

func mariaDB(ctx context.Context, store *software.Store, site *daemon.Site) (spec daemon.Spec, err error) {
	programs, err := store.MariaDB(ctx)
	if err != nil {
		return spec, err
	}
	if spec, err = site.MariaDBSpec("private", programs); err != nil {
		return spec, err
	}
	args := spec.Args
	spec.Args = func(port int) []string { return append(args(port), "--log-bin=binlog", "--server-id=1") }
	_, err = spec.Run(ctx, "mariadb-install-db", daemon.InitMariaDB(spec)...)
	return spec, err
}

// admin opens a server as its administrator.
func admin(t *testing.T, link string) *sql.DB {
	t.Helper()
	db, err := engines.Open(link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func execAll(t *testing.T, db *sql.DB, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if _, err := db.Exec(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// refused expects that neither Open nor Do commits anything, and that the
// message names the setting.
func refused(t *testing.T, link, word string) {
	t.Helper()
	db, err := sqlstore.Open(t.Context(), link, sqlstore.Options{})
	if err == nil {
		_ = db.Close()
	}
	own, d, openErr := sqlstore.OpenSQL(link)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer own.Close()
	_, doErr := sqlstore.Do(t.Context(), engine(t, sqlstore.New(d, sqlstore.Options{})), own, intent("refused"), succeed)
	for way, err := range map[string]error{"Open": err, "Do": doErr} {
		if !errors.Is(err, sqlstore.ErrUnsafeSettings) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v, want ErrUnsafeSettings that names %s", way, err, word)
		}
	}
}

// TestUnsafeServers turns down, one by one, what keeps commits on a server.
func TestUnsafeServers(t *testing.T) {
	for range engines.Named(t, engines.Postgres15) {
		server := private(t, engines.Postgres15)
		db := admin(t, server.URL)
		migrated(t, server.URL, sqlstore.Options{})
		for _, setting := range []string{"fsync", "full_page_writes", "synchronous_commit"} {
			execAll(t, db, "ALTER SYSTEM SET "+setting+" = off", "SELECT pg_reload_conf()")
			awaitSetting(t, server.URL, setting, "off")
			refused(t, server.URL, setting)
			execAll(t, db, "ALTER SYSTEM SET "+setting+" = on", "SELECT pg_reload_conf()")
			awaitSetting(t, server.URL, setting, "on")
		}
		reach(t, server.URL, sqlstore.Options{})
		execAll(t, db, "ALTER DATABASE postgres SET synchronous_commit = off")
		refused(t, server.URL, "synchronous_commit")
	}
	for range engines.Named(t, engines.MariaDB) {
		server := private(t, engines.MariaDB)
		db := admin(t, server.URL)
		link := server.URL + "shop"
		execAll(t, db, "CREATE DATABASE shop", "SET GLOBAL sync_binlog = 1")
		migrated(t, link, sqlstore.Options{})
		refused(t, link+"?sql_mode=''", "sql_mode") // case 4
		execAll(t, db, "SET GLOBAL sync_binlog = 0")
		refused(t, link, "sync_binlog")
		execAll(t, db, "SET GLOBAL sync_binlog = 1", "SET GLOBAL innodb_flush_log_at_trx_commit = 2")
		refused(t, link, "innodb_flush_log_at_trx_commit")
	}
}

// awaitSetting returns once new sessions have a setting: the server reads its
// files a moment after it was told to.
func awaitSetting(t *testing.T, link, name, want string) {
	t.Helper()
	for over := time.After(20 * time.Second); ; {
		db := admin(t, link)
		var got string
		if err := db.QueryRow("SELECT current_setting($1)", name).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got == want {
			return
		}
		select {
		case <-over:
			t.Fatalf("%s stays %s", name, got)
		case <-time.After(time.Millisecond):
		}
	}
}

// hosts puts hosts in front of the one in a URL.
func hosts(t *testing.T, link string, first ...string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = strings.Join(append(first, u.Host), ",")
	return u.String()
}

// dead returns an address where nobody listens.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// silent returns an address that takes connections and never says a word, as a
// server that is frozen does.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() }) // the system takes the connections meanwhile
	return l.Addr().String()
}

// TestFailoverOrder opens several hosts that don't replicate: that is refused
// unless it is meant, and then the first that can be written serves.
func TestFailoverOrder(t *testing.T) {
	unsafe := sqlstore.Options{UnsafeAsyncFailover: true}
	for _, name := range []string{engines.Postgres15, engines.MariaDB} {
		for _, e := range engines.Named(t, name) {
			s := newService(t, e.Database(t), sqlstore.Options{})
			standby := private(t, name)
			u, err := url.Parse(standby.URL)
			if err != nil {
				t.Fatal(err)
			}
			list := hosts(t, s.link, dead(t), u.Host)
			db := admin(t, standby.URL)
			shop := s.link[strings.LastIndex(s.link, "/")+1:]
			execAll(t, db, "CREATE DATABASE "+shop)
			if e.Dialect == "mysql" {
				execAll(t, db, "SET GLOBAL sync_binlog = 1", "SET GLOBAL read_only = 1")
			} else {
				execAll(t, db, "ALTER DATABASE "+shop+" SET default_transaction_read_only = on")
			}
			if _, err := sqlstore.Open(t.Context(), list, sqlstore.Options{}); !errors.Is(err, sqlstore.ErrUnsafeSettings) {
				t.Errorf("%s: %v, want ErrUnsafeSettings", e.Name, err)
			}
			if _, err := s.orderIn(t.Context(), reach(t, list, unsafe), "k"); err != nil {
				t.Errorf("%s: %v", e.Name, err)
			}
			s.expectOrders(t, "k", 1)
			// One that is frozen is passed over as well.
			if _, err := s.orderIn(t.Context(), reach(t, hosts(t, s.link, silent(t)), unsafe), "k2"); err != nil {
				t.Errorf("%s, the first host is silent: %v", e.Name, err)
			}
			s.expectOrders(t, "k2", 1)
		}
	}
}

// TestHostsInParameters names several hosts of PostgreSQL where no URL has
// them: they are asked how they replicate all the same.
func TestHostsInParameters(t *testing.T) {
	for _, e := range engines.Named(t, engines.Postgres15) {
		u, err := url.Parse(e.Database(t))
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(u.Path, "/")
		deadHost, deadPort, _ := net.SplitHostPort(dead(t))
		list, ports := deadHost+","+u.Hostname(), deadPort+","+u.Port()
		refused := func(link string) {
			t.Helper()
			db, err := sqlstore.Open(t.Context(), link, sqlstore.Options{})
			if err == nil {
				_ = db.Close()
			}
			if !errors.Is(err, sqlstore.ErrUnsafeSettings) {
				t.Errorf("%s: %v, want ErrUnsafeSettings", link, err)
			}
		}
		refused("postgres://postgres@/" + name + "?host=" + list + "&port=" + ports)
		t.Setenv("PGHOST", list)
		t.Setenv("PGPORT", ports)
		refused("postgres:///" + name + "?user=postgres")
	}
}

// TestSynchronousStandby cuts the wait for a standby that is not there: the
// server then says that it has committed, with a warning, and the commit may be
// gone after a failover. That is unknown, and no success (case 50).
func TestSynchronousStandby(t *testing.T) {
	for range engines.Named(t, engines.Postgres15) {
		server := private(t, engines.Postgres15)
		s := newService(t, server.URL, sqlstore.Options{})
		db := admin(t, server.URL)
		own := ownPool(t, server.URL)
		standby := func(names string) {
			execAll(t, db, "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'", "SELECT pg_reload_conf()")
			awaitSetting(t, server.URL, "synchronous_standby_names", names)
		}
		standby("nobody")
		reach(t, hosts(t, server.URL, dead(t)), sqlstore.Options{}) // several hosts are fine with one
		ways := map[string]func(id string) (bool, error){
			"InTx": func(id string) (bool, error) { return s.orderIn(t.Context(), s.db, id) },
			"Do":   func(id string) (bool, error) { return s.orderDo(t.Context(), own, id) },
		}
		for way, order := range ways {
			standby("nobody")
			// The second is told the same as long as no standby has the row, although everybody can read it.
			for _, try := range []string{"the first", "a retry"} {
				answer := make(chan error, 1)
				go func() {
					_, err := order(way)
					answer <- err
				}()
				cancelWait(t, db)
				if err := <-answer; !errors.Is(err, onlyonce.ErrCommitUnknown) || !strings.Contains(fmt.Sprint(err), "warning") {
					t.Errorf("%s, %s: %v, want ErrCommitUnknown for the warning", way, try, err)
				}
			}
			standby("")
			if replayed, err := order(way); err != nil || !replayed {
				t.Errorf("%s, the retry: replayed %v, error %v", way, replayed, err)
			}
			s.expectOrders(t, way, 1)
		}
	}
}

// cancelWait cancels a COMMIT that waits for a standby, once there is one.
func cancelWait(t *testing.T, db *sql.DB) {
	t.Helper()
	cancelled := false
	for over := time.After(20 * time.Second); !cancelled; {
		err := db.QueryRow("SELECT coalesce(bool_or(pg_cancel_backend(pid)), false) FROM pg_stat_activity " +
			"WHERE wait_event = 'SyncRep'").Scan(&cancelled)
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-over:
			t.Fatal("no COMMIT waits for the standby")
		case <-time.After(time.Millisecond):
		}
	}
}
