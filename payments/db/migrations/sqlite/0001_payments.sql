-- +goose Up
-- Times are integer microseconds since 1970 UTC, 0 where there is none. Amounts are minor units.

CREATE TABLE IF NOT EXISTS api_keys (
    account_id TEXT    NOT NULL,
    key_hash   BLOB    NOT NULL, -- SHA-256 of the key
    role       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, key_hash)
);
CREATE UNIQUE INDEX IF NOT EXISTS api_keys_by_hash ON api_keys (key_hash);

CREATE TABLE IF NOT EXISTS payments (
    account_id        TEXT    NOT NULL,
    id                TEXT    NOT NULL,
    idempotency_key   TEXT    NOT NULL,
    order_id          TEXT    NOT NULL, -- '' where there is none
    order_guard       BLOB,             -- digest of order_id; NULL while the order is free
    amount            INTEGER NOT NULL,
    captured          INTEGER NOT NULL,
    currency          TEXT    NOT NULL,
    state             TEXT    NOT NULL,
    version           INTEGER NOT NULL,
    description       TEXT    NOT NULL,
    metadata          BLOB    NOT NULL, -- JSON
    decline_code      TEXT    NOT NULL,
    provider_instance TEXT    NOT NULL,
    provider_id       TEXT    NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
);
CREATE UNIQUE INDEX IF NOT EXISTS payments_by_guard ON payments (account_id, order_guard);
CREATE INDEX IF NOT EXISTS payments_by_time ON payments (account_id, created_at, id);
CREATE INDEX IF NOT EXISTS payments_by_order ON payments (account_id, order_id, created_at, id);
CREATE INDEX IF NOT EXISTS payments_by_key ON payments (account_id, idempotency_key, created_at, id);

CREATE TABLE IF NOT EXISTS refunds (
    account_id        TEXT    NOT NULL,
    id                TEXT    NOT NULL,
    payment_id        TEXT    NOT NULL,
    idempotency_key   TEXT    NOT NULL,
    amount            INTEGER NOT NULL,
    currency          TEXT    NOT NULL,
    state             TEXT    NOT NULL,
    version           INTEGER NOT NULL,
    reason            TEXT    NOT NULL,
    decline_code      TEXT    NOT NULL,
    provider_instance TEXT    NOT NULL,
    provider_id       TEXT    NOT NULL,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    PRIMARY KEY (account_id, id)
);
CREATE INDEX IF NOT EXISTS refunds_by_payment ON refunds (account_id, payment_id, created_at, id);
CREATE INDEX IF NOT EXISTS refunds_by_key ON refunds (account_id, idempotency_key);

-- One row for each step of a resource's version: a duplicate is a lost race.
CREATE TABLE IF NOT EXISTS events (
    account_id  TEXT    NOT NULL,
    resource_id TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    type        TEXT    NOT NULL,
    state       TEXT    NOT NULL,
    attempt     INTEGER NOT NULL,
    detail      TEXT    NOT NULL,
    PRIMARY KEY (account_id, resource_id, version)
);

CREATE TABLE IF NOT EXISTS dispatches (
    account_id        TEXT    NOT NULL,
    resource_id       TEXT    NOT NULL,
    kind              TEXT    NOT NULL,
    idempotency_key   TEXT    NOT NULL,
    request_id        TEXT    NOT NULL,
    provider_instance TEXT    NOT NULL,
    provider_key      TEXT    NOT NULL,
    request           BLOB,             -- sealed; NULL once the resource is final
    api_version       TEXT    NOT NULL,
    amount            INTEGER NOT NULL,
    currency          TEXT    NOT NULL,
    provider_id       TEXT    NOT NULL,
    first_sent_at     INTEGER NOT NULL,
    sends             INTEGER NOT NULL,
    ambiguous         INTEGER NOT NULL,
    reads_only        INTEGER NOT NULL,
    accepted          INTEGER NOT NULL,
    checks            INTEGER NOT NULL,
    absences          INTEGER NOT NULL,
    unknown_since     INTEGER NOT NULL,
    next_check_at     INTEGER NOT NULL,
    PRIMARY KEY (account_id, resource_id)
);
-- Few dispatches wait for a check, and few are unfinished.
CREATE INDEX IF NOT EXISTS dispatches_by_check ON dispatches (provider_instance, next_check_at)
    WHERE next_check_at > 0;
CREATE INDEX IF NOT EXISTS dispatches_by_first_send ON dispatches (first_sent_at) WHERE request IS NOT NULL;

CREATE TABLE IF NOT EXISTS replays (
    account_id       TEXT    NOT NULL,
    resource_id      TEXT    NOT NULL,
    replays          INTEGER NOT NULL,
    last_replayed_at INTEGER NOT NULL,
    PRIMARY KEY (account_id, resource_id)
);
