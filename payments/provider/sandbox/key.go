package sandbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net/http"
	"time"
)

// keyRow is what is remembered of an idempotency key.
type keyRow struct {
	name       string
	endpoint   string
	params     []byte // digest of the parameters
	sends      int
	owner      string // of a slow charge that is running
	leaseUntil int64
	status     int // of the answer; 0 while there is none
	body       []byte
	requestID  string // of the send that made the answer
	createdAt  int64  // of the first send
}

func loadKey(ctx context.Context, tx *sql.Tx, name string) (row keyRow, found bool, err error) {
	row.name = name
	err = tx.QueryRowContext(ctx, sqlLoadKey, name).Scan(&row.endpoint, &row.params, &row.sends, &row.owner,
		&row.leaseUntil, &row.status, &row.body, &row.requestID, &row.createdAt)
	if errors.Is(err, sql.ErrNoRows) {
		return keyRow{}, false, nil
	}
	return row, err == nil, err
}

func (k keyRow) save(ctx context.Context, tx *sql.Tx) error {
	if k.name == "" {
		return nil // a request without a key is never remembered
	}
	if k.body == nil {
		k.body = []byte{}
	}
	_, err := tx.ExecContext(ctx, sqlSaveKey, k.name, k.endpoint, k.params, k.sends, k.owner,
		k.leaseUntil, k.status, k.body, k.requestID, k.createdAt)
	return err
}

// recall is the row of the request's key, a fresh one if there is none, or the
// answer that the row alone decides.
func (s *Sandbox) recall(ctx context.Context, tx *sql.Tx, req request) (keyRow, *response, error) {
	now := s.o.Now()
	fresh := keyRow{name: req.key, endpoint: req.endpoint, params: req.params, createdAt: now.UnixMicro()}
	if req.key == "" {
		return fresh, nil, nil
	}
	row, found, err := loadKey(ctx, tx, req.key)
	if err != nil {
		return keyRow{}, nil, err
	}
	switch {
	case !found || now.Sub(time.UnixMicro(row.createdAt)) >= s.o.KeyWindow:
		return fresh, nil, nil
	case row.endpoint != req.endpoint || !bytes.Equal(row.params, req.params):
		return row, problem{
			status: http.StatusBadRequest, Type: "idempotency_error",
			Message: "Keys for idempotent requests can only be used with the same endpoint and parameters " +
				"they were first used with.",
		}.response(), nil
	case row.status != 0:
		return row, &response{status: row.status, body: row.body, original: row.requestID}, nil
	case row.owner != "" && now.UnixMicro() < row.leaseUntil:
		return row, keyInUse().response(), nil
	}
	return row, nil, nil
}

func keyInUse() problem {
	return problem{
		status: http.StatusConflict, Type: "idempotency_error", Code: "idempotency_key_in_use",
		Message: "There is currently another in-progress request using this idempotency key.",
	}
}
