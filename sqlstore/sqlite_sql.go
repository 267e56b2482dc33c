package sqlstore

import "github.com/onlyonce-go/onlyonce"

// The statements of the SQLite dialect. SQLite's "now" stands still within a
// statement and has the resolution of a millisecond; it is the clock of the
// process, so every process on one file must run on one machine, which SQLite
// in WAL mode demands anyway.
const (
	sqliteNow = `(CAST(round(unixepoch('subsec') * 1000000.0) AS INTEGER) + ?)`

	sqliteColumns = `account_id, idempotency_key, status, body_hash, operation, owner, attempt, lease_until,
		recovery_point, resource, created_at, completed_at, expires_at, ` + sqliteNow

	sqliteClaim = `INSERT INTO idempotency_keys
		(account_id, idempotency_key, status, body_hash, operation, owner, attempt, lease_until,
		recovery_point, resource, created_at, version)
		VALUES (?, ?, 'in_progress', ?, ?, ?, 1, ` + sqliteNow + ` + ?, ?, ?, ` + sqliteNow + `, 1)
		ON CONFLICT (account_id, idempotency_key) DO NOTHING`

	sqliteLoad = `SELECT ` + sqliteColumns + `, response_status, response_headers, response_body
		FROM idempotency_keys WHERE account_id = ? AND idempotency_key = ?`

	sqliteTakeOver = `UPDATE idempotency_keys
		SET owner = ?, attempt = attempt + 1, lease_until = ` + sqliteNow + ` + ?, version = version + 1
		WHERE account_id = ? AND idempotency_key = ? AND status = 'in_progress'
		AND attempt = ? AND lease_until <= ` + sqliteNow

	sqliteAdvance = `UPDATE idempotency_keys
		SET recovery_point = ?, resource = ?, lease_until = ` + sqliteNow + ` + ?, version = version + 1
		WHERE account_id = ? AND idempotency_key = ? AND status = 'in_progress' AND owner = ?`

	sqliteFinish = `UPDATE idempotency_keys
		SET status = 'completed', resource = ?, response_status = ?, response_headers = ?, response_body = ?,
		completed_at = ` + sqliteNow + `, expires_at = ` + sqliteNow + ` + ?, version = version + 1
		WHERE account_id = ? AND idempotency_key = ? AND status = 'in_progress' AND owner = ?`

	sqliteRelease = `DELETE FROM idempotency_keys
		WHERE account_id = ? AND idempotency_key = ? AND status = 'in_progress' AND owner = ?
		AND recovery_point = 'started'`

	// A tombstone's time runs from the end of the retention, not from the day
	// on which the reaper came by.
	sqliteExpire = `UPDATE idempotency_keys
		SET status = 'tombstone', response_status = NULL, response_headers = NULL, response_body = NULL,
		expires_at = expires_at + ?, version = version + 1
		WHERE account_id = ? AND idempotency_key = ? AND status = 'completed' AND expires_at <= ` + sqliteNow

	sqliteForget = `DELETE FROM idempotency_keys
		WHERE account_id = ? AND idempotency_key = ? AND status = 'tombstone' AND expires_at <= ` + sqliteNow

	sqliteDueInProgress = `SELECT ` + sqliteColumns + ` FROM idempotency_keys
		WHERE status = 'in_progress' AND recovery_point <> 'unknown' AND lease_until <= ` + sqliteNow + `
		ORDER BY lease_until, account_id, idempotency_key LIMIT ?`

	sqliteDueCompleted = `SELECT ` + sqliteColumns + ` FROM idempotency_keys
		WHERE status = 'completed' AND expires_at <= ` + sqliteNow + `
		ORDER BY expires_at, account_id, idempotency_key LIMIT ?`

	sqliteDueTombstone = `SELECT ` + sqliteColumns + ` FROM idempotency_keys
		WHERE status = 'tombstone' AND expires_at <= ` + sqliteNow + `
		ORDER BY expires_at, account_id, idempotency_key LIMIT ?`

	sqliteCreatedAt = `SELECT created_at FROM idempotency_keys WHERE account_id = ? AND idempotency_key = ?`

	sqliteList = `SELECT ` + sqliteColumns + ` FROM idempotency_keys WHERE account_id = ?
		ORDER BY created_at DESC, idempotency_key DESC LIMIT ?`

	sqliteListAfter = `SELECT ` + sqliteColumns + ` FROM idempotency_keys
		WHERE account_id = ? AND (created_at < ? OR created_at = ? AND idempotency_key < ?)
		ORDER BY created_at DESC, idempotency_key DESC LIMIT ?`

	// An in-memory database has no file to lose and can't use a WAL.
	sqliteSettings = `SELECT CASE
		WHEN (SELECT synchronous FROM pragma_synchronous) < 2 THEN 'synchronous is below FULL'
		WHEN (SELECT journal_mode FROM pragma_journal_mode) IN ('off', 'memory')
			AND (SELECT file FROM pragma_database_list WHERE name = 'main') <> '' THEN 'journal_mode is off or memory'
		ELSE '' END`
)

func sqliteStatements() statements {
	return statements{
		now:        `SELECT ` + sqliteNow,
		claim:      sqliteClaim,
		load:       sqliteLoad,
		loadLocked: sqliteLoad, // whoever has written in the transaction holds the database's write lock
		takeOver:   sqliteTakeOver,
		advance:    sqliteAdvance,
		finish:     sqliteFinish,
		release:    sqliteRelease,
		expire:     sqliteExpire,
		forget:     sqliteForget,
		due: map[string]string{
			string(onlyonce.InProgress): sqliteDueInProgress,
			string(onlyonce.Completed):  sqliteDueCompleted,
			string(onlyonce.Tombstone):  sqliteDueTombstone,
		},
		createdAt: sqliteCreatedAt,
		list:      sqliteList,
		listAfter: sqliteListAfter,
	}
}

func sqliteSchema() schemaStatements {
	return schemaStatements{
		create: []string{
			`CREATE TABLE IF NOT EXISTS migration_lease (
				name TEXT NOT NULL PRIMARY KEY, owner TEXT NOT NULL, lease_until BIGINT NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS schema_compatible (
				name TEXT NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (name, version))`,
		},
		tableExists: `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?`,
		insertLease: `INSERT INTO migration_lease (name, owner, lease_until)
			VALUES ('migrate', ?, ` + sqliteNow + ` + ?) ON CONFLICT (name) DO NOTHING`,
		takeLease: `UPDATE migration_lease SET owner = ?, lease_until = ` + sqliteNow + ` + ?
			WHERE name = 'migrate' AND (owner = ? OR lease_until <= ` + sqliteNow + `)`,
		leaseOwner: `SELECT owner FROM migration_lease WHERE name = 'migrate'`,
		dropLease:  `DELETE FROM migration_lease WHERE name = 'migrate' AND owner = ?`,
		version:    `SELECT COALESCE(MAX(version_id), 0) FROM %s`,
		incompatible: `SELECT count(*) FROM %s AS v WHERE NOT EXISTS
			(SELECT 1 FROM schema_compatible AS c WHERE c.name = ? AND c.version = v.version_id)
			AND v.version_id > ?`,
		installation: `SELECT id FROM installation WHERE singleton = 1`,
	}
}
