package sandbox

// schema is made once, at the first opening of the file. Times are integer
// microseconds; amounts are the provider's units as they were sent.
const schema = `
CREATE TABLE IF NOT EXISTS meta (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- One row per idempotency key. status 0: not executed yet; an owner with a
-- lease: a slow charge is running.
CREATE TABLE IF NOT EXISTS keys (
	name        TEXT PRIMARY KEY,
	endpoint    TEXT NOT NULL,
	params      BLOB NOT NULL,
	sends       INTEGER NOT NULL,
	owner       TEXT NOT NULL,
	lease_until INTEGER NOT NULL,
	status      INTEGER NOT NULL,
	body        BLOB NOT NULL,
	request_id  TEXT NOT NULL,
	created_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS objects (
	seq         INTEGER PRIMARY KEY,
	id          TEXT NOT NULL UNIQUE,
	kind        TEXT NOT NULL,
	amount      INTEGER NOT NULL,
	currency    TEXT NOT NULL,
	status      TEXT NOT NULL,
	decline     TEXT NOT NULL,
	charge      TEXT NOT NULL,
	refund_fate TEXT NOT NULL,
	metadata    TEXT NOT NULL,
	created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS objects_created ON objects (kind, created_at);
CREATE INDEX IF NOT EXISTS objects_charge ON objects (charge) WHERE charge <> '';

CREATE TABLE IF NOT EXISTS ledger (
	seq             INTEGER PRIMARY KEY,
	id              TEXT NOT NULL UNIQUE,
	type            TEXT NOT NULL,
	amount          INTEGER NOT NULL,
	currency        TEXT NOT NULL,
	status          TEXT NOT NULL,
	metadata        TEXT NOT NULL,
	idempotency_key TEXT NOT NULL,
	created_at      INTEGER NOT NULL
) STRICT;
CREATE TRIGGER IF NOT EXISTS ledger_no_update BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS ledger_no_delete BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
`

const (
	sqlID     = `SELECT value FROM meta WHERE name = 'id'`
	sqlMakeID = `INSERT INTO meta (name, value) VALUES ('id', ?) ON CONFLICT (name) DO NOTHING`

	sqlLoadKey = `SELECT endpoint, params, sends, owner, lease_until, status, body, request_id, created_at
FROM keys WHERE name = ?`
	sqlSaveKey = `INSERT INTO keys
	(name, endpoint, params, sends, owner, lease_until, status, body, request_id, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET endpoint = excluded.endpoint, params = excluded.params, sends = excluded.sends,
	owner = excluded.owner, lease_until = excluded.lease_until, status = excluded.status, body = excluded.body,
	request_id = excluded.request_id, created_at = excluded.created_at`

	sqlAddObject = `INSERT INTO objects
	(id, kind, amount, currency, status, decline, charge, refund_fate, metadata, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlLoadObject = `SELECT seq, id, kind, amount, currency, status, decline, charge, refund_fate, metadata, created_at
FROM objects WHERE kind = ? AND id = ?`
	// Newest first, as Stripe lists.
	sqlListObjects = `SELECT seq, id, kind, amount, currency, status, decline, charge, refund_fate, metadata, created_at
FROM objects WHERE kind = ? AND created_at >= ? AND created_at < ? AND seq < ?
ORDER BY seq DESC LIMIT ?`
	sqlListRefunds = `SELECT seq, id, kind, amount, currency, status, decline, charge, refund_fate, metadata, created_at
FROM objects WHERE kind = ? AND created_at >= ? AND created_at < ? AND seq < ?
	AND charge = ? AND charge <> ''
ORDER BY seq DESC LIMIT ?`
	sqlRefunded = `SELECT COALESCE(SUM(amount), 0) FROM objects WHERE charge = ? AND status <> 'failed'`

	sqlAddEntry = `INSERT INTO ledger (id, type, amount, currency, status, metadata, idempotency_key, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	sqlLastEntry = `SELECT COALESCE(MAX(seq), 0) FROM ledger`
	sqlEntries   = `SELECT seq, id, type, amount, currency, status, metadata, idempotency_key, created_at
FROM ledger WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?`
)
