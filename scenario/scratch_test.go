package scenario_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/scenario"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

func run(t *testing.T, e engines.Engine, url, statement string) {
	t.Helper()
	if _, err := e.SQL(t, url).ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// Tables that no scenario made are left alone, and named.
func TestForeignTablesAreNotTouched(t *testing.T) {
	s := parse(t, "f.txt", walletSetup+"A: SELECT balance FROM scn_wallets")
	for _, e := range servers(t) {
		t.Run(e.Name, func(t *testing.T) {
			url := e.Database(t)
			run(t, e, url, "CREATE TABLE scn_wallets (mine BIGINT)")
			run(t, e, url, "CREATE TABLE customers (mine BIGINT)")
			begun := func(e scenario.Event) { t.Errorf("it began: %+v", e) }
			err := s.Play(t.Context(), scenario.Options{URLs: []string{url}, Watch: begun})
			if !errors.Is(err, scenario.ErrNotOurs) || !strings.Contains(err.Error(), "scn_wallets: name an empty database") {
				t.Error(err)
			}
			run(t, e, url, "INSERT INTO scn_wallets (mine) VALUES (1)")
			run(t, e, url, "DROP TABLE scn_wallets")
			if err := s.Play(t.Context(), scenario.Options{URLs: []string{url}}); err != nil {
				t.Error(err)
			}
			if tables := tablesOf(t, e, url); len(tables) != 1 || tables[0] != "customers" {
				t.Errorf("the tables are %v", tables)
			}
		})
	}
}

// A database in which the engine keeps keys is nobody's scratch.
func TestInstallationsAreNotTouched(t *testing.T) {
	s := parse(t, "f.txt", walletSetup+"A do k x: UPDATE scn_wallets SET balance = 1 WHERE id = 17")
	for _, e := range servers(t) {
		t.Run(e.Name, func(t *testing.T) {
			url := e.Database(t)
			db, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Migrate(t.Context(), sqlstore.EngineMigrations()); err != nil {
				t.Fatal(err)
			}
			before := tablesOf(t, e, url)
			err = s.Play(t.Context(), scenario.Options{URLs: []string{url}})
			if !errors.Is(err, scenario.ErrNotOurs) || !strings.Contains(err.Error(), "idempotency_keys") {
				t.Error(err)
			}
			if after := tablesOf(t, e, url); strings.Join(after, " ") != strings.Join(before, " ") {
				t.Errorf("the tables were %v and are %v", before, after)
			}
		})
	}
}

// What --keep left is the next scenario's to remove, but not once somebody
// else keeps keys in it.
func TestKeptTables(t *testing.T) {
	s := parse(t, "f.txt", walletSetup+"A do k x: UPDATE scn_wallets SET balance = 1 WHERE id = 17")
	for _, e := range servers(t) {
		t.Run(e.Name, func(t *testing.T) {
			url := e.Database(t)
			keep := scenario.Options{URLs: []string{url}, Keep: true}
			for range 2 {
				if err := s.Play(t.Context(), keep); err != nil {
					t.Fatal(err)
				}
				kept := strings.Join(tablesOf(t, e, url), " ")
				if !strings.Contains(kept, "idempotency_keys") || !strings.Contains(kept, "scn_wallets") {
					t.Errorf("kept are %s", kept)
				}
			}
			run(t, e, url, "UPDATE idempotency_keys SET operation = 'payments.create'")
			if err := s.Play(t.Context(), keep); !errors.Is(err, scenario.ErrNotOurs) {
				t.Errorf("somebody else's keys: %v", err)
			}
			run(t, e, url, "DELETE FROM idempotency_keys")
			if err := s.Play(t.Context(), scenario.Options{URLs: []string{url}}); err != nil {
				t.Error(err)
			}
			if tables := tablesOf(t, e, url); len(tables) > 0 {
				t.Errorf("tables are left: %v", tables)
			}
		})
	}
}
