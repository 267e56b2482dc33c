-- +goose Up

-- VARBINARY compares as bytes, trailing spaces included, which no text
-- collation of MySQL and MariaDB does alike. A tombstone is a row whose
-- response columns are NULL. Times are microseconds since 1970.
-- DDL is no part of a transaction here, so each statement stands a repetition.
CREATE TABLE IF NOT EXISTS idempotency_keys (
    account_id       VARBINARY(64)  NOT NULL,
    idempotency_key  VARBINARY(255) NOT NULL,
    status           VARBINARY(16)  NOT NULL,
    body_hash        VARBINARY(255) NOT NULL,
    operation        VARBINARY(255) NOT NULL,
    owner            VARBINARY(255) NOT NULL,
    attempt          BIGINT NOT NULL,
    lease_until      BIGINT NOT NULL,
    recovery_point   VARBINARY(64)  NOT NULL,
    resource         VARBINARY(255) NOT NULL,
    created_at       BIGINT NOT NULL,
    completed_at     BIGINT,
    expires_at       BIGINT,
    version          BIGINT NOT NULL,
    response_status  BIGINT,
    response_headers LONGBLOB,
    response_body    LONGBLOB,
    PRIMARY KEY (account_id, idempotency_key),
    -- What a sweep looks for, and what a person does.
    KEY idempotency_keys_lease (status, lease_until, account_id, idempotency_key),
    KEY idempotency_keys_expiry (status, expires_at, account_id, idempotency_key),
    KEY idempotency_keys_created (account_id, created_at, idempotency_key)
) ENGINE = InnoDB;

-- The random name of this installation goes into every key that is presented
-- to a provider, so a backup must carry it and a copy for staging must not.
CREATE TABLE IF NOT EXISTS installation (
    singleton BIGINT NOT NULL PRIMARY KEY CHECK (singleton = 1),
    id        VARBINARY(64) NOT NULL
) ENGINE = InnoDB;

INSERT INTO installation (singleton, id)
SELECT 1, LOWER(HEX(RANDOM_BYTES(16))) FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM installation);
