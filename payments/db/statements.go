package db

import "strings"

// statements are the SQL texts of this package, written with ? placeholders
// and one hole: {lock} is the dialect's locking clause for a row that exists.
type statements struct {
	apiKeyByHash, apiKeys, insertAPIKey, revokeAPIKeys, expireAPIKeys string

	payment, paymentLocked, paymentByGuard, insertPayment, updatePayment string
	refund, refundLocked, insertRefund, updateRefund                     string
	dispatch, insertDispatch, updateDispatch                             string
	generation, insertEvent, events                                      string
	dueDispatches, nextCheck, unfinished, sealed, futureSends, stopSends string
	replays, insertReplays, addReplays                                   string
}

const paymentColumns = `SELECT p.account_id, p.id, p.idempotency_key, p.order_id, p.order_guard, p.amount, p.captured,
	p.currency, p.state, p.version, p.description, p.metadata, p.decline_code, p.provider_instance, p.provider_id,
	p.created_at, p.updated_at,
	(SELECT COALESCE(SUM(r.amount), 0) FROM refunds r
		WHERE r.account_id = p.account_id AND r.payment_id = p.id AND r.state = 'succeeded'),
	(SELECT COALESCE(SUM(r.amount), 0) FROM refunds r
		WHERE r.account_id = p.account_id AND r.payment_id = p.id AND r.state <> 'failed'),
	(SELECT COALESCE(SUM(r.amount), 0) FROM refunds r
		WHERE r.account_id = p.account_id AND r.payment_id = p.id AND r.state IN ('pending_unknown', 'review')),
	d.unknown_since, d.next_check_at
	FROM payments p JOIN dispatches d ON d.account_id = p.account_id AND d.resource_id = p.id
	WHERE p.account_id = ?`

const refundColumns = `SELECT r.account_id, r.id, r.payment_id, r.idempotency_key, r.amount, r.currency, r.state,
	r.version, r.reason, r.decline_code, r.provider_instance, r.provider_id, r.created_at, r.updated_at,
	d.unknown_since, d.next_check_at
	FROM refunds r JOIN dispatches d ON d.account_id = r.account_id AND d.resource_id = r.id
	WHERE r.account_id = ?`

const dispatchColumns = `SELECT account_id, resource_id, kind, idempotency_key, request_id, provider_instance,
	provider_key, api_version, amount, currency, provider_id, first_sent_at, sends, ambiguous, reads_only, accepted,
	checks, absences, unknown_since, next_check_at`

// newStatements fills the holes for one dialect.
func newStatements(lock string, rebind func(string) string) statements {
	text := func(q string) string { return rebind(strings.ReplaceAll(q, "{lock}", lock)) }
	return statements{
		apiKeyByHash: text(`SELECT account_id, key_hash, role, created_at, expires_at, revoked_at
			FROM api_keys WHERE key_hash = ?`),
		apiKeys: text(`SELECT account_id, key_hash, role, created_at, expires_at, revoked_at
			FROM api_keys WHERE ? IN ('', account_id) ORDER BY account_id, created_at, key_hash`),
		insertAPIKey: text(`INSERT INTO api_keys (account_id, key_hash, role, created_at, expires_at, revoked_at)
			VALUES (?, ?, ?, ?, ?, ?)`),
		revokeAPIKeys: text(`UPDATE api_keys SET revoked_at = ? WHERE account_id = ? AND revoked_at = 0`),
		expireAPIKeys: text(`UPDATE api_keys SET expires_at = ?
			WHERE account_id = ? AND key_hash <> ? AND revoked_at = 0 AND (expires_at = 0 OR expires_at > ?)`),

		payment:        text(paymentColumns + ` AND p.id = ?`),
		paymentLocked:  text(`SELECT version FROM payments WHERE account_id = ? AND id = ? {lock}`),
		paymentByGuard: text(paymentColumns + ` AND p.order_guard = ?`),
		insertPayment: text(`INSERT INTO payments (account_id, id, idempotency_key, order_id, order_guard, amount, captured,
			currency, state, version, description, metadata, decline_code, provider_instance, provider_id, created_at,
			updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		updatePayment: text(`UPDATE payments SET order_guard = ?, captured = ?, state = ?, version = ?, decline_code = ?,
			provider_id = ?, updated_at = ? WHERE account_id = ? AND id = ? AND version = ?`),

		refund:       text(refundColumns + ` AND r.id = ?`),
		refundLocked: text(`SELECT version FROM refunds WHERE account_id = ? AND id = ? {lock}`),
		insertRefund: text(`INSERT INTO refunds (account_id, id, payment_id, idempotency_key, amount, currency, state,
			version, reason, decline_code, provider_instance, provider_id, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		updateRefund: text(`UPDATE refunds SET state = ?, version = ?, decline_code = ?, provider_id = ?, updated_at = ?
			WHERE account_id = ? AND id = ? AND version = ?`),

		dispatch: text(dispatchColumns + `, request FROM dispatches WHERE account_id = ? AND resource_id = ?`),
		insertDispatch: text(`INSERT INTO dispatches (account_id, resource_id, kind, idempotency_key, request_id,
			provider_instance, provider_key, api_version, amount, currency, provider_id, first_sent_at, sends, ambiguous,
			reads_only, accepted, checks, absences, unknown_since, next_check_at, request)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
		updateDispatch: text(`UPDATE dispatches SET provider_id = ?, sends = ?, ambiguous = ?, reads_only = ?, accepted = ?,
			checks = ?, absences = ?, unknown_since = ?, next_check_at = ?, request = ?
			WHERE account_id = ? AND resource_id = ?`),

		generation: text(`SELECT (SELECT COUNT(*) FROM payments WHERE account_id = ? AND idempotency_key = ?)
			+ (SELECT COUNT(*) FROM refunds WHERE account_id = ? AND idempotency_key = ?)`),
		insertEvent: text(`INSERT INTO events (account_id, resource_id, version, at, type, state, attempt, detail)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`),
		events: text(`SELECT account_id, resource_id, version, at, type, state, attempt, detail FROM events
			WHERE account_id = ? AND resource_id = ? AND version > ? ORDER BY version LIMIT ?`),

		dueDispatches: text(dispatchColumns + `, NULL FROM dispatches
			WHERE next_check_at > 0 AND next_check_at <= ? AND provider_instance = ? ORDER BY next_check_at LIMIT ?`),
		nextCheck: text(`SELECT COALESCE(MIN(next_check_at), 0) FROM dispatches
			WHERE next_check_at > 0 AND provider_instance = ?`),
		unfinished: text(`SELECT provider_instance, COUNT(*) FROM dispatches WHERE request IS NOT NULL
			GROUP BY provider_instance`),

		futureSends: text(`SELECT COUNT(*) FROM dispatches WHERE first_sent_at > ? AND reads_only = 0
			AND request IS NOT NULL`),
		stopSends: text(`UPDATE dispatches SET reads_only = 1 WHERE first_sent_at > ? AND reads_only = 0
			AND request IS NOT NULL`),
		sealed: text(`SELECT resource_id, request FROM dispatches WHERE request IS NOT NULL`),

		replays: text(`SELECT replays, last_replayed_at FROM replays WHERE account_id = ? AND resource_id = ?`),
		insertReplays: text(`INSERT INTO replays (account_id, resource_id, replays, last_replayed_at)
			VALUES (?, ?, ?, ?)`),
		addReplays: text(`UPDATE replays SET replays = replays + ?, last_replayed_at = ?
			WHERE account_id = ? AND resource_id = ?`),
	}
}

const (
	paymentTail = ` ORDER BY p.created_at DESC, p.id DESC LIMIT ?`
	paymentPage = ` AND (p.created_at < ? OR (p.created_at = ? AND p.id < ?))`
	refundTail  = ` ORDER BY r.created_at DESC, r.id DESC LIMIT ?`
	refundPage  = ` AND (r.created_at < ? OR (r.created_at = ? AND r.id < ?))`
)
