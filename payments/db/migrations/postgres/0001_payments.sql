-- +goose Up

-- Text compares as bytes (the collation "C"). Times are microseconds since
-- 1970, 0 where there is none. Amounts are minor units.
CREATE TABLE IF NOT EXISTS api_keys (
    account_id TEXT COLLATE "C" NOT NULL,
    key_hash   BYTEA  NOT NULL, -- SHA-256 of the key
    role       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, key_hash)
);
CREATE UNIQUE INDEX IF NOT EXISTS api_keys_by_hash ON api_keys (key_hash);

CREATE TABLE IF NOT EXISTS payments (
    account_id        TEXT COLLATE "C" NOT NULL,
    id                TEXT COLLATE "C" NOT NULL,
    idempotency_key   TEXT COLLATE "C" NOT NULL,
    order_id          TEXT COLLATE "C" NOT NULL, -- '' where there is none
    order_guard       BYTEA,                     -- digest of order_id; NULL while the order is free
    amount            BIGINT NOT NULL,
    captured          BIGINT NOT NULL,
    currency          TEXT COLLATE "C" NOT NULL,
    state             TEXT COLLATE "C" NOT NULL,
    version           BIGINT NOT NULL,
    description       TEXT COLLATE "C" NOT NULL,
    metadata          BYTEA  NOT NULL,           -- JSON
    decline_code      TEXT COLLATE "C" NOT NULL,
    provider_instance TEXT COLLATE "C" NOT NULL,
    provider_id       TEXT COLLATE "C" NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    PRIMARY KEY (account_id, id)
);
CREATE UNIQUE INDEX IF NOT EXISTS payments_by_guard ON payments (account_id, order_guard);
CREATE INDEX IF NOT EXISTS payments_by_time ON payments (account_id, created_at, id);
CREATE INDEX IF NOT EXISTS payments_by_order ON payments (account_id, order_id, created_at, id);
CREATE INDEX IF NOT EXISTS payments_by_key ON payments (account_id, idempotency_key, created_at, id);

CREATE TABLE IF NOT EXISTS refunds (
    account_id        TEXT COLLATE "C" NOT NULL,
    id                TEXT COLLATE "C" NOT NULL,
    payment_id        TEXT COLLATE "C" NOT NULL,
    idempotency_key   TEXT COLLATE "C" NOT NULL,
    amount            BIGINT NOT NULL,
    currency          TEXT COLLATE "C" NOT NULL,
    state             TEXT COLLATE "C" NOT NULL,
    version           BIGINT NOT NULL,
    reason            TEXT COLLATE "C" NOT NULL,
    decline_code      TEXT COLLATE "C" NOT NULL,
    provider_instance TEXT COLLATE "C" NOT NULL,
    provider_id       TEXT COLLATE "C" NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    PRIMARY KEY (account_id, id)
);
CREATE INDEX IF NOT EXISTS refunds_by_payment ON refunds (account_id, payment_id, created_at, id);
CREATE INDEX IF NOT EXISTS refunds_by_key ON refunds (account_id, idempotency_key);

-- One row for each step of a resource's version: a duplicate is a lost race.
CREATE TABLE IF NOT EXISTS events (
    account_id  TEXT COLLATE "C" NOT NULL,
    resource_id TEXT COLLATE "C" NOT NULL,
    version     BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    type        TEXT COLLATE "C" NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    attempt     BIGINT NOT NULL,
    detail      TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (account_id, resource_id, version)
);

CREATE TABLE IF NOT EXISTS dispatches (
    account_id        TEXT COLLATE "C" NOT NULL,
    resource_id       TEXT COLLATE "C" NOT NULL,
    kind              TEXT COLLATE "C" NOT NULL,
    idempotency_key   TEXT COLLATE "C" NOT NULL,
    request_id        TEXT COLLATE "C" NOT NULL,
    provider_instance TEXT COLLATE "C" NOT NULL,
    provider_key      TEXT COLLATE "C" NOT NULL,
    request           BYTEA,                     -- sealed; NULL once the resource is final
    api_version       TEXT COLLATE "C" NOT NULL,
    amount            BIGINT NOT NULL,
    currency          TEXT COLLATE "C" NOT NULL,
    provider_id       TEXT COLLATE "C" NOT NULL,
    first_sent_at     BIGINT NOT NULL,
    sends             BIGINT NOT NULL,
    ambiguous         BIGINT NOT NULL,
    reads_only        BIGINT NOT NULL,
    accepted          BIGINT NOT NULL,
    checks            BIGINT NOT NULL,
    absences          BIGINT NOT NULL,
    unknown_since     BIGINT NOT NULL,
    next_check_at     BIGINT NOT NULL,
    PRIMARY KEY (account_id, resource_id)
);
-- Few dispatches wait for a check, and few are unfinished.
CREATE INDEX IF NOT EXISTS dispatches_by_check ON dispatches (provider_instance, next_check_at)
    WHERE next_check_at > 0;
CREATE INDEX IF NOT EXISTS dispatches_by_first_send ON dispatches (first_sent_at) WHERE request IS NOT NULL;

CREATE TABLE IF NOT EXISTS replays (
    account_id       TEXT COLLATE "C" NOT NULL,
    resource_id      TEXT COLLATE "C" NOT NULL,
    replays          BIGINT NOT NULL,
    last_replayed_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, resource_id)
);
