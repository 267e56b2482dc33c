package sqlstore

import (
	"fmt"
	"strings"

	"github.com/onlyonce-go/onlyonce"
)

// shape is what the engines' SQL differs in. Everything else is one text for
// all of them, below, with these holes:
//
//	{now}           the clock, with one placeholder for the skew
//	{lock}          locks the rows of a SELECT
//	{unless taken}  makes an INSERT leave a row alone that has this key
//	{unless leased} the same for the lease on migrations
//	{tables}        the table of tables, as in FROM
//	{here}          the condition that picks this database's own
type shape struct {
	now, lock, unlessTaken, unlessLeased, tables, here string
	rebind                                             func(string) string
}

// fill closes the holes of a text and numbers its placeholders.
func (s shape) fill(text string) string {
	holes := strings.NewReplacer("{now}", s.now, "{lock}", s.lock, "{unless taken}", s.unlessTaken,
		"{unless leased}", s.unlessLeased, "{tables}", s.tables, "{here}", s.here)
	return s.rebind(strings.TrimSpace(holes.Replace(text)))
}

// statements are the statements on the keys, one for each verb of
// onlyonce.Store. The comment names the arguments in order; skew stands
// wherever the text says now.
type statements struct {
	now        string            // skew
	claim      string            // account, key, body_hash, operation, owner, skew, lease, point, resource, skew
	load       string            // skew, account, key
	loadLocked string            // as load
	takeOver   string            // owner, skew, lease, account, key, attempt, skew
	advance    string            // point, resource, skew, lease, account, key, owner
	finish     string            // resource, response status, headers, body, skew, skew, retention, account, key, owner
	release    string            // account, key, owner
	expire     string            // tombstones, account, key, skew
	forget     string            // account, key, skew
	due        map[string]string // by status; skew, skew, limit
	createdAt  string            // account, key
	list       string            // skew, account, limit
	listAfter  string            // skew, account, created_at, created_at, key, limit
}

const (
	keyColumns = `account_id, idempotency_key, status, body_hash, operation, owner, attempt, lease_until,
		recovery_point, resource, created_at, completed_at, expires_at, {now}`

	claimKey = `INSERT INTO idempotency_keys
		(account_id, idempotency_key, status, body_hash, operation, owner, attempt, lease_until,
		recovery_point, resource, created_at, version)
		VALUES (?, ?, 'in_progress', ?, ?, ?, 1, {now} + ?, ?, ?, {now}, 1) {unless taken}`

	loadKey = `SELECT ` + keyColumns + `, response_status, response_headers, response_body
		FROM idempotency_keys WHERE account_id = ? AND idempotency_key = ?`

	takeOverKey = `UPDATE idempotency_keys
		SET owner = ?, attempt = attempt + 1, lease_until = {now} + ?, version = version + 1
		WHERE account_id = ? AND idempotency_key = ? AND status = 'in_progress'
		AND attempt = ? AND lease_until <= {now}`

	advanceKey = `UPDATE idempotency_keys
		SET recovery_point = ?, resource = ?, lease_until = {now} + ?, version = version + 1
		WHERE account_id = ? AND idempotency_key = ? AND status = 'in_progress' AND owner = ?`

	finishKey = `UPDATE idempotency_keys
		SET status = 'completed', resource = ?, response_status = ?, response_headers = ?, response_body = ?,
		completed_at = {now}, expires_at = {now} + ?, version = version + 1
		WHERE account_id = ? AND idempotency_key = ? AND status = 'in_progress' AND owner = ?`

	releaseKey = `DELETE FROM idempotency_keys
		WHERE account_id = ? AND idempotency_key = ? AND status = 'in_progress' AND owner = ?
		AND recovery_point = 'started'`

	// A tombstone's time runs from the end of the retention, not from the day
	// on which the reaper came by.
	expireKey = `UPDATE idempotency_keys
		SET status = 'tombstone', response_status = NULL, response_headers = NULL, response_body = NULL,
		expires_at = expires_at + ?, version = version + 1
		WHERE account_id = ? AND idempotency_key = ? AND status = 'completed' AND expires_at <= {now}`

	forgetKey = `DELETE FROM idempotency_keys
		WHERE account_id = ? AND idempotency_key = ? AND status = 'tombstone' AND expires_at <= {now}`

	dueKeys = `SELECT ` + keyColumns + ` FROM idempotency_keys
		WHERE status = 'in_progress' AND recovery_point <> 'unknown' AND lease_until <= {now}
		ORDER BY lease_until, account_id, idempotency_key LIMIT ?`

	expiredKeys = `SELECT ` + keyColumns + ` FROM idempotency_keys
		WHERE status = '%s' AND expires_at <= {now}
		ORDER BY expires_at, account_id, idempotency_key LIMIT ?`

	listKeys = `SELECT ` + keyColumns + ` FROM idempotency_keys WHERE account_id = ?
		ORDER BY created_at DESC, idempotency_key DESC LIMIT ?`

	listKeysAfter = `SELECT ` + keyColumns + ` FROM idempotency_keys
		WHERE account_id = ? AND (created_at < ? OR created_at = ? AND idempotency_key < ?)
		ORDER BY created_at DESC, idempotency_key DESC LIMIT ?`
)

func (s shape) statements() statements {
	expired := func(status onlyonce.Status) string { return s.fill(fmt.Sprintf(expiredKeys, status)) }
	return statements{
		now:        s.fill(`SELECT {now}`),
		claim:      s.fill(claimKey),
		load:       s.fill(loadKey),
		loadLocked: s.fill(loadKey + ` {lock}`),
		takeOver:   s.fill(takeOverKey),
		advance:    s.fill(advanceKey),
		finish:     s.fill(finishKey),
		release:    s.fill(releaseKey),
		expire:     s.fill(expireKey),
		forget:     s.fill(forgetKey),
		due: map[string]string{
			string(onlyonce.InProgress): s.fill(dueKeys),
			string(onlyonce.Completed):  expired(onlyonce.Completed),
			string(onlyonce.Tombstone):  expired(onlyonce.Tombstone),
		},
		createdAt: s.fill(`SELECT created_at FROM idempotency_keys WHERE account_id = ? AND idempotency_key = ?`),
		list:      s.fill(listKeys),
		listAfter: s.fill(listKeysAfter),
	}
}

// schemaStatements are the statements on the tables that guard migrations.
type schemaStatements struct {
	create       []string
	tableExists  string // table
	tableFault   string // table; why it could lose a commit, in words; "": there is no such fault
	insertLease  string // owner, skew, lease
	takeLease    string // owner, skew, lease, owner, skew
	leaseOwner   string
	dropLease    string // owner
	version      string // %s: version table
	incompatible string // %s: version table; set, the newest version that this program knows
	installation string
}

// schema takes the tables' own texts, whose types differ too much for one.
func (s shape) schema(create ...string) schemaStatements {
	return schemaStatements{
		create:      create,
		tableExists: s.fill(`SELECT count(*) FROM {tables} WHERE {here} = ?`),
		insertLease: s.fill(`INSERT INTO migration_lease (name, owner, lease_until)
			VALUES ('migrate', ?, {now} + ?) {unless leased}`),
		takeLease: s.fill(`UPDATE migration_lease SET owner = ?, lease_until = {now} + ?
			WHERE name = 'migrate' AND (owner = ? OR lease_until <= {now})`),
		leaseOwner: s.fill(`SELECT owner FROM migration_lease WHERE name = 'migrate'`),
		dropLease:  s.fill(`DELETE FROM migration_lease WHERE name = 'migrate' AND owner = ?`),
		version:    s.fill(`SELECT COALESCE(MAX(version_id), 0) FROM %s`),
		incompatible: s.fill(`SELECT count(*) FROM %s AS v WHERE NOT EXISTS
			(SELECT 1 FROM schema_compatible AS c WHERE c.name = ? AND c.version = v.version_id)
			AND v.version_id > ?`),
		installation: s.fill(`SELECT id FROM installation WHERE singleton = 1`),
	}
}
