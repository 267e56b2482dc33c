package sqlstore_test

import (
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/storetest"
)

// matrixVariable is the environment variable that asks for all variants.
const matrixVariable = "ONLYONCE_MATRIX"

// TestConformance holds every engine to the contract.
func TestConformance(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		list := variants(e)
		if os.Getenv(matrixVariable) != "" {
			list = matrix(e)
		}
		for _, v := range list {
			t.Run(v.name, func(t *testing.T) { storetest.Run(t, harness(t, e, v)) })
		}
	})
}

// few is how many keys are used side by side where others have used many.
const few = 300

// variants are the ways to use an engine that every run plays. On MySQL the
// number of rows that a statement reports means another thing with
// clientFoundRows (case 40). Sessions live in odd time zones where they can.
func variants(e engines.Engine) []variant {
	switch {
	case e.Dialect == "mysql":
		return []variant{{name: "changed rows"}, {
			name: "found rows", parameters: "clientFoundRows=true&time_zone='-11:30'", keys: few,
		}}
	case e.Dialect == "postgres" && e.Name != engines.PgBouncer:
		return []variant{{name: "defaults", parameters: "TimeZone=Australia%2FLord_Howe"}}
	}
	return []variant{{name: "defaults"}}
}

// levels are those that Do can be told to use.
func levels() []sql.IsolationLevel {
	return []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
}

// matrix is every way that must make no difference.
func matrix(e engines.Engine) []variant {
	switch e.Dialect {
	case "postgres":
		return postgresMatrix(e)
	case "mysql":
		return mysqlMatrix(e)
	}
	return []variant{{name: "defaults"}}
}

// postgresMatrix leaves out what pgbouncer breaks in its transaction mode: the
// modes cache_statement and describe_exec prepare on one connection and execute
// on another, and it refuses parameters of the session.
func postgresMatrix(e engines.Engine) (list []variant) {
	modes := []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}
	if e.Name == engines.PgBouncer {
		modes = []string{"cache_describe", "exec", "simple_protocol"}
	}
	for _, mode := range modes {
		for _, level := range levels() {
			list = append(list, variant{
				name: fmt.Sprint(mode, " ", level), isolation: level, keys: few, parameters: "default_query_exec_mode=" + mode,
				serial: level == sql.LevelSerializable,
			})
		}
	}
	if e.Name == engines.PgBouncer {
		return list
	}
	for _, level := range levels() {
		list = append(list, variant{
			name: "pool of " + level.String(), keys: few, serial: level == sql.LevelSerializable,
			parameters: "TimeZone=Australia%2FLord_Howe&default_transaction_isolation=" + url.PathEscape(level.String()),
		})
	}
	return list
}

func mysqlMatrix(e engines.Engine) (list []variant) {
	for _, driver := range []string{"", "clientFoundRows=true", "interpolateParams=true",
		"clientFoundRows=true&interpolateParams=true"} {
		for _, level := range levels() {
			list = append(list, variant{
				name: fmt.Sprint(driver, " ", level), isolation: level, keys: few, parameters: driver,
			})
		}
	}
	name := "transaction_isolation"
	if e.Name == engines.MariaDB {
		name = "tx_isolation" // until 11.1
		for _, level := range levels() {
			list = append(list, variant{
				name: "snapshot isolation " + level.String(), isolation: level, keys: few,
				parameters: "innodb_snapshot_isolation=ON",
			})
		}
	}
	for _, level := range []string{"READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"} {
		list = append(list, variant{
			name: "pool of " + level, keys: few, parameters: "time_zone='-11:30'&" + name + "='" + level + "'",
		})
	}
	return list
}
