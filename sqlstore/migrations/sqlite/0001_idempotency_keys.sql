-- +goose Up

-- Text compares as bytes (the BINARY collation). A tombstone is a row whose
-- response columns are NULL. Times are microseconds since 1970.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    account_id       TEXT   NOT NULL,
    idempotency_key  TEXT   NOT NULL,
    status           TEXT   NOT NULL,
    body_hash        BLOB   NOT NULL,
    operation        TEXT   NOT NULL,
    owner            TEXT   NOT NULL,
    attempt          BIGINT NOT NULL,
    lease_until      BIGINT NOT NULL,
    recovery_point   TEXT   NOT NULL,
    resource         TEXT   NOT NULL,
    created_at       BIGINT NOT NULL,
    completed_at     BIGINT,
    expires_at       BIGINT,
    version          BIGINT NOT NULL,
    response_status  BIGINT,
    response_headers BLOB,
    response_body    BLOB,
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
SELECT 1, lower(hex(randomblob(16))) WHERE NOT EXISTS (SELECT 1 FROM installation);
