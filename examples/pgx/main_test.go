package main

import (
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/examples/internal/storytest"
	"github.com/onlyonce-go/onlyonce/internal/engines"
)

func TestCharge(t *testing.T) {
	storytest.Run(t, open, engines.Postgres15, engines.Postgres18, engines.PgBouncer)
}

// Without --db an example plays on SQLite, which pgx can't reach.
func TestOtherEnginesAreRefused(t *testing.T) {
	for _, url := range []string{"sqlite:wallets.db", "mysql://root@127.0.0.1/wallets"} {
		if _, err := open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "--db postgres://HOST/NAME") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
