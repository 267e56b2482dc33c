-- name: Take :execrows
-- Take hits no row if there are too few units.
UPDATE wallets SET balance = balance - sqlc.arg(units) WHERE owner = sqlc.arg(owner) AND balance >= sqlc.arg(units);

-- name: Balance :one
-- Balance reads what is in a wallet.
SELECT balance FROM wallets WHERE owner = sqlc.arg(owner);
