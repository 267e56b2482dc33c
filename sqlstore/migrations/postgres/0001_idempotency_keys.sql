-- +goose Up

-- Text compares as bytes (the collation "C"). A tombstone is a row whose
-- response columns are NULL. Times are microseconds since 1970.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    account_id       TEXT COLLATE "C" NOT NULL,
    idempotency_key  TEXT COLLATE "C" NOT NULL,
    status           TEXT COLLATE "C" NOT NULL,
    body_hash        BYTEA  NOT NULL,
    operation        TEXT COLLATE "C" NOT NULL,
    owner            TEXT COLLATE "C" NOT NULL,
    attempt          BIGINT NOT NULL,
    lease_until      BIGINT NOT NULL,
    recovery_point   TEXT COLLATE "C" NOT NULL,
    resource         TEXT COLLATE "C" NOT NULL,
    created_at       BIGINT NOT NULL,
    completed_at     BIGINT,
    expires_at       BIGINT,
    version          BIGINT NOT NULL,
    response_status  BIGINT,
    response_headers BYTEA,
    response_body    BYTEA,
    PRIMARY KEY (account_id, idempotency_key)
);

-- What a sweep looks for: few rows are in progress, and none of the unknown
-- ones is its business.
CREATE INDEX IF NOT EXISTS idempotency_keys_lease ON idempotency_keys (lease_until, account_id, idempotency_key)
    WHERE status = 'in_progress' AND recovery_point <> 'unknown';
CREATE INDEX IF NOT EXISTS idempotency_keys_expiry ON idempotency_keys (status, expires_at, account_id, idempotency_key)
    WHERE expires_at IS NOT NULL;
-- What a person looks for: an account's keys, newest first.
CREATE INDEX IF NOT EXISTS idempotency_keys_created ON idempotency_keys (account_id, created_at, idempotency_key);

-- The random name of this installation goes into every key that is presented
-- to a provider, so a backup must carry it and a copy for staging must not.
CREATE TABLE IF NOT EXISTS installation (
    singleton BIGINT NOT NULL PRIMARY KEY CHECK (singleton = 1),
    id        TEXT   NOT NULL
);
INSERT INTO installation (singleton, id)
SELECT 1, replace(gen_random_uuid()::text, '-', '') WHERE NOT EXISTS (SELECT 1 FROM installation);
