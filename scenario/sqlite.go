package scenario

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"

	"modernc.org/sqlite"
)

// The result codes of SQLite that have a class (sqlite.org/rescode.html).
const (
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqlitePrimaryKey = 1555
	sqliteUnique     = 2067
)

func sqliteEngine(ctx context.Context, pool *sql.DB) (engine, error) {
	var version string
	err := pool.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version)
	return engine{
		title: "SQLite " + version, words: []string{wordSQLite},
		// SQLite's own tables can't be removed.
		tables: "SELECT name FROM sqlite_schema WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_'",
		waits:  sqliteWaits,
		judge:  sqliteJudge,
	}, err
}

// sqliteWaits looks for the session in the busy handler. SQLite has no server
// to ask: whoever waits does so in the process itself, in that function, which
// is reached once the database was found locked and not before.
func sqliteWaits(_ context.Context, _ *node, w waiter) (yes bool, by []int64, err error) {
	var text bytes.Buffer
	const withLabels = 1 // the format that says who has which label
	if err := pprof.Lookup("goroutine").WriteTo(&text, withLabels); err != nil {
		return false, nil, fmt.Errorf("look for waiting sessions: %w", err)
	}
	for stack := range strings.SplitSeq(text.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("%q:%q", labelName, w.label)) &&
			(strings.Contains(stack, "modernc.org/sqlite.busyHandler") || strings.Contains(stack, "sqliteDefaultBusyCallback")) {
			return true, nil, nil
		}
	}
	return false, nil, nil
}

func sqliteJudge(err error) (class, code string) {
	e, ok := errors.AsType[*sqlite.Error](err)
	if !ok {
		return "", ""
	}
	code = fmt.Sprint(e.Code())
	switch {
	case e.Code() == sqlitePrimaryKey || e.Code() == sqliteUnique:
		return errDuplicate, code
	case e.Code()&0xff == sqliteBusy || e.Code()&0xff == sqliteLocked: // the rest says why
		return errBusy, code
	}
	return errOther, code
}
