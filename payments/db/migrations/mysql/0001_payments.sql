-- +goose Up

-- VARBINARY compares as bytes. Its widths are what the API accepts: a character
-- takes up to four bytes, ids and keys have at most 255. What has no such limit
-- is a LONGBLOB. Times are microseconds since 1970, 0 where there is none.
-- Amounts are minor units. DDL is no part of a transaction here, so each
-- statement stands a repetition.
CREATE TABLE IF NOT EXISTS api_keys (
    account_id VARBINARY(64) NOT NULL,
    key_hash   VARBINARY(32) NOT NULL, -- SHA-256 of the key
    role       VARBINARY(32) NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, key_hash),
    UNIQUE KEY api_keys_by_hash (key_hash)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS payments (
    account_id        VARBINARY(64)   NOT NULL,
    id                VARBINARY(64)   NOT NULL,
    idempotency_key   VARBINARY(255)  NOT NULL,
    order_id          VARBINARY(1020) NOT NULL, -- '' where there is none
    order_guard       VARBINARY(32),            -- digest of order_id; NULL while the order is free
    amount            BIGINT NOT NULL,
    captured          BIGINT NOT NULL,
    currency          VARBINARY(16)   NOT NULL,
    state             VARBINARY(32)   NOT NULL,
    version           BIGINT NOT NULL,
    description       VARBINARY(4000) NOT NULL,
    metadata          LONGBLOB        NOT NULL, -- JSON
    decline_code      VARBINARY(255)  NOT NULL,
    provider_instance VARBINARY(255)  NOT NULL,
    provider_id       VARBINARY(255)  NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    PRIMARY KEY (account_id, id),
    UNIQUE KEY payments_by_guard (account_id, order_guard),
    KEY payments_by_time (account_id, created_at, id),
    KEY payments_by_order (account_id, order_id, created_at, id),
    KEY payments_by_key (account_id, idempotency_key, created_at, id)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS refunds (
    account_id        VARBINARY(64)   NOT NULL,
    id                VARBINARY(64)   NOT NULL,
    payment_id        VARBINARY(64)   NOT NULL,
    idempotency_key   VARBINARY(255)  NOT NULL,
    amount            BIGINT NOT NULL,
    currency          VARBINARY(16)   NOT NULL,
    state             VARBINARY(32)   NOT NULL,
    version           BIGINT NOT NULL,
    reason            VARBINARY(2000) NOT NULL,
    decline_code      VARBINARY(255)  NOT NULL,
    provider_instance VARBINARY(255)  NOT NULL,
    provider_id       VARBINARY(255)  NOT NULL,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    PRIMARY KEY (account_id, id),
    KEY refunds_by_payment (account_id, payment_id, created_at, id),
    KEY refunds_by_key (account_id, idempotency_key)
) ENGINE = InnoDB;

-- One row for each step of a resource's version: a duplicate is a lost race.
CREATE TABLE IF NOT EXISTS events (
    account_id  VARBINARY(64) NOT NULL,
    resource_id VARBINARY(64) NOT NULL,
    version     BIGINT NOT NULL,
    at          BIGINT NOT NULL,
    type        VARBINARY(64) NOT NULL,
    state       VARBINARY(32) NOT NULL,
    attempt     BIGINT NOT NULL,
    detail      LONGBLOB      NOT NULL,
    PRIMARY KEY (account_id, resource_id, version)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS dispatches (
    account_id        VARBINARY(64)  NOT NULL,
    resource_id       VARBINARY(64)  NOT NULL,
    kind              VARBINARY(32)  NOT NULL,
    idempotency_key   VARBINARY(255) NOT NULL,
    request_id        VARBINARY(255) NOT NULL,
    provider_instance VARBINARY(255) NOT NULL,
    provider_key      VARBINARY(255) NOT NULL,
    request           LONGBLOB,                -- sealed; NULL once the resource is final
    api_version       VARBINARY(255) NOT NULL,
    amount            BIGINT NOT NULL,
    currency          VARBINARY(16)  NOT NULL,
    provider_id       VARBINARY(255) NOT NULL,
    first_sent_at     BIGINT NOT NULL,
    sends             BIGINT NOT NULL,
    ambiguous         BIGINT NOT NULL,
    reads_only        BIGINT NOT NULL,
    accepted          BIGINT NOT NULL,
    checks            BIGINT NOT NULL,
    absences          BIGINT NOT NULL,
    unknown_since     BIGINT NOT NULL,
    next_check_at     BIGINT NOT NULL,
    PRIMARY KEY (account_id, resource_id),
    KEY dispatches_by_check (provider_instance, next_check_at),
    KEY dispatches_by_first_send (first_sent_at)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS replays (
    account_id       VARBINARY(64) NOT NULL,
    resource_id      VARBINARY(64) NOT NULL,
    replays          BIGINT NOT NULL,
    last_replayed_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, resource_id)
) ENGINE = InnoDB;
