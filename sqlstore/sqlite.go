package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
)

// The result codes of SQLite that this dialect judges (sqlite.org/rescode.html).
const (
	sqliteError      = 1 // for a COMMIT: no transaction is active
	sqlitePerm       = 3
	sqliteBusy       = 5
	sqliteLocked     = 6
	sqliteNoMem      = 7
	sqliteReadOnly   = 8
	sqliteInterrupt  = 9
	sqliteIOErr      = 10
	sqliteCorrupt    = 11
	sqliteFull       = 13
	sqliteCantOpen   = 14
	sqliteProtocol   = 15
	sqliteConstraint = 19
	sqliteNotADB     = 26

	sqliteConstraintCommitHook = 531
	sqliteConstraintPrimaryKey = 1555
	sqliteConstraintUnique     = 2067
)

// SQLite's "now" stands still within a statement and has the resolution of a
// millisecond; it is the clock of the process, so every process on one file
// must run on one machine, which SQLite in WAL mode demands anyway.
const sqliteNow = `(CAST(round(unixepoch('subsec') * 1000000.0) AS INTEGER) + ?)`

// An in-memory database has no file to lose and can't use a WAL.
const sqliteSettings = `SELECT CASE
	WHEN (SELECT synchronous FROM pragma_synchronous) < 2 THEN 'synchronous is below FULL'
	WHEN (SELECT journal_mode FROM pragma_journal_mode) IN ('off', 'memory')
		AND (SELECT file FROM pragma_database_list WHERE name = 'main') <> '' THEN 'journal_mode is off or memory'
	ELSE '' END`

// SQLite is the dialect of SQLite files, through the driver modernc.org/sqlite.
func SQLite() Dialect {
	shape := shape{
		now: sqliteNow, rebind: func(query string) string { return query },
		// Whoever has written in a transaction holds the database's write lock, so
		// no row needs one.
		unlessTaken:  "ON CONFLICT (account_id, idempotency_key) DO NOTHING",
		unlessLeased: "ON CONFLICT (name) DO NOTHING",
		tables:       "sqlite_schema", here: "type = 'table' AND name",
	}
	return Dialect{
		Name:        "sqlite",
		Now:         shape.now,
		Rebind:      shape.rebind,
		IsDuplicate: sqliteIsDuplicate,
		Retryable:   sqliteHas(sqliteBusy, sqliteLocked),
		Unavailable: sqliteUnavailable,
		endsTx:      sqliteHas(sqliteInterrupt, sqliteFull, sqliteIOErr, sqliteNoMem, sqliteCorrupt),
		// After an I/O error the commit's last page may or may not have
		// reached the disk, and a crash would bring it back: not in this list.
		rolledBack:    sqliteHas(sqliteBusy, sqliteFull, sqliteConstraint, sqliteError),
		oneWriter:     true,
		lockTimeout:   func(error) bool { return false }, // a busy database is Retryable
		endsConn:      func(error) bool { return false },
		begin:         func(Options) string { return "BEGIN IMMEDIATE" },
		commit:        "COMMIT",
		rollback:      "ROLLBACK",
		settings:      sqliteSettings,
		guardCommit:   sqliteGuardCommit,
		refusedCommit: func(err error) bool { return sqliteCode(err) == sqliteConstraintCommitHook },
		upkeep:        sqliteUpkeep,
		snapshot:      []string{"BEGIN"}, // the handle that reads is query_only
		sql:           shape.statements(),
		schema: shape.schema(
			`CREATE TABLE IF NOT EXISTS migration_lease (
				name TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, lease_until BIGINT NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS schema_compatible (
				name TEXT NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (name, version))`),
		goose: goose.DialectSQLite3,
		open:  sqliteOpen,
		pool:  sqlitePool,
	}
}

// sqliteCode returns the extended result code of an error, or 0.
func sqliteCode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// sqliteHas makes a test for primary result codes, which are the low byte.
func sqliteHas(codes ...int) func(error) bool {
	return func(err error) bool {
		code := sqliteCode(err) & 0xff
		for _, c := range codes {
			if code == c {
				return true
			}
		}
		return false
	}
}

func sqliteIsDuplicate(err error) bool {
	code := sqliteCode(err)
	return code == sqliteConstraintPrimaryKey || code == sqliteConstraintUnique
}

func sqliteUnavailable(err error) bool {
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		sqliteHas(sqliteBusy, sqliteLocked, sqlitePerm, sqliteNoMem, sqliteReadOnly, sqliteIOErr, sqliteCorrupt,
			sqliteFull, sqliteCantOpen, sqliteProtocol, sqliteNotADB)(err)
}

// sqliteOpen opens one handle that writes, with one connection, and one that
// reads: in WAL mode readers and the writer never wait for each other. What is
// deleted or blanked is overwritten with zeros (secure_delete), because a card
// token must not stay in the file's free space.
func sqliteOpen(ctx context.Context, url string, o Options) (h handles, err error) {
	path, err := sqlitePath(url)
	if err != nil {
		return h, err
	}
	pragmas := sqlitePragmas(o) + "&_pragma=secure_delete(ON)"
	if h.writer, err = sqliteHandle(path+pragmas+"&_txlock=immediate", 1, o); err != nil {
		return h, err
	}
	// The writer comes first: it makes the file and turns it to WAL.
	if err = sqliteReach(ctx, h.writer); err != nil {
		return h, errors.Join(err, h.writer.Close())
	}
	if h.present, err = sqlitePresent(path); err != nil {
		return h, errors.Join(err, h.writer.Close())
	}
	if h.readers, err = sqliteHandle(path+pragmas+"&_query_only=1", o.Readers, o); err != nil {
		return h, errors.Join(err, h.writer.Close())
	}
	return h, nil
}

func sqlitePragmas(o Options) string {
	return fmt.Sprintf("?_pragma=busy_timeout(%d)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)",
		o.BusyWait.Milliseconds())
}

// sqlitePool is a pool for somebody else's own use.
func sqlitePool(url string, o Options) (*sql.DB, error) {
	path, err := sqlitePath(url)
	if err != nil {
		return nil, err
	}
	connector, err := sqlite.NewConnector(path + sqlitePragmas(o))
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// sqliteUpkeep copies the write-ahead log back and empties it. That waits for
// readers with the write lock in its hand, so it gives up soon: a long look
// must not hold up every writer, and there is a next time.
func sqliteUpkeep(ctx context.Context, conn *sql.Conn, o Options) error {
	const patience = 100 * time.Millisecond
	setWait := func(d time.Duration) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA busy_timeout(%d)", d.Milliseconds()))
		return err
	}
	if err := setWait(patience); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return errors.Join(err, setWait(o.BusyWait))
}

// sqlitePresent returns a check that the file under this name is still the one
// that was opened. A file that was moved, removed or replaced goes on taking
// commits that the next start would never see.
func sqlitePresent(path string) (func() error, error) {
	opened, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	return func() error {
		now, err := os.Stat(path)
		if err != nil || !os.SameFile(opened, now) {
			return fmt.Errorf("%w: %s was moved, removed or replaced while it was open: put it back, or start again",
				ErrUnavailable, path)
		}
		return nil
	}, nil
}

// sqlitePath refuses what would open another database than the one named.
func sqlitePath(url string) (string, error) {
	path := strings.TrimPrefix(url, "sqlite:")
	switch {
	case path == "" || path == ":memory:":
		return "", errors.New("sqlite needs the path of a file, for example sqlite:onlyonce.db")
	case strings.Contains(path, "?"):
		return "", errors.New("sqlite takes no parameters: onlyonce sets what keeps commits durable " +
			"(WAL, synchronous=FULL) on every connection itself")
	}
	if rest, ok := strings.CutPrefix(path, "//"); ok {
		if !filepath.IsAbs(rest) {
			return "", fmt.Errorf("sqlite:%s would be a file in the root folder; write sqlite:%s", path, rest)
		}
		path = rest
	}
	if !filepath.IsAbs(path) {
		path = "./" + path // so that no name is taken for a URI
	}
	return path, nil
}

func sqliteHandle(dsn string, conns int, o Options) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	if o.Connect != nil {
		connector = o.Connect(connector)
	}
	db := sql.OpenDB(checkedConnector{connector, SQLite(), o})
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// sqliteReach makes the first connection. Several processes that turn a new
// file to WAL at once get SQLITE_BUSY without having waited, so it tries again
// until the caller's time is over.
func sqliteReach(ctx context.Context, db *sql.DB) error {
	const pause = 10 * time.Millisecond // the change to WAL takes about one fsync
	for {
		err := db.PingContext(ctx)
		if !sqliteHas(sqliteBusy, sqliteLocked)(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
