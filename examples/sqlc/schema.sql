-- What internal/story makes, for sqlc to read.
CREATE TABLE wallets (
    owner   VARCHAR(64) PRIMARY KEY,
    balance BIGINT NOT NULL
);
