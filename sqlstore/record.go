package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// row holds a record's columns as they are stored.
type row struct {
	rec                 onlyonce.Record
	hash                []byte
	lease, created, now int64
	completed, expires  *int64
	status              *int64
	headers, body       []byte
}

// summary lists where the columns without the response go, in the order of
// the statements.
func (r *row) summary() []any {
	return []any{
		&r.rec.Key.Account, &r.rec.Key.Name, &r.rec.Status, &r.hash, &r.rec.Operation, &r.rec.Owner, &r.rec.Attempt,
		&r.lease, &r.rec.Point, &r.rec.Resource, &r.created, &r.completed, &r.expires, &r.now,
	}
}

// whole is summary with the response.
func (r *row) whole() []any {
	return append(r.summary(), &r.status, &r.headers, &r.body)
}

func (r *row) record() (onlyonce.Record, error) {
	rec := r.rec
	rec.Fingerprint = onlyonce.Fingerprint(r.hash)
	rec.LeaseUntil = fromMicros(r.lease)
	rec.CreatedAt = fromMicros(r.created)
	rec.Now = fromMicros(r.now)
	if r.completed != nil {
		rec.CompletedAt = fromMicros(*r.completed)
	}
	if r.expires != nil {
		rec.ExpiresAt = fromMicros(*r.expires)
	}
	if r.status == nil {
		return rec, nil
	}
	header, err := decodeHeader(r.headers)
	if err != nil {
		return onlyonce.Record{}, fmt.Errorf("read the stored headers of key %v: %w", rec.Key, err)
	}
	body := r.body
	if body == nil {
		body = []byte{}
	}
	rec.Outcome = &onlyonce.Outcome{Status: int(*r.status), Header: header, Body: body}
	return rec, nil
}

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }

// encodeHeader writes a header as JSON. Its values are bytes and need not be
// UTF-8 (RFC 9110, 5.5), which JSON strings must be, so each byte becomes the
// character with that number and comes back unchanged.
func encodeHeader(header map[string][]string) ([]byte, error) {
	return json.Marshal(mapHeader(header, func(s string) string {
		runes := make([]rune, len(s))
		for i := range len(s) {
			runes[i] = rune(s[i])
		}
		return string(runes)
	}))
}

func decodeHeader(text []byte) (map[string][]string, error) {
	var header map[string][]string
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, err
	}
	return mapHeader(header, func(s string) string {
		bytes := make([]byte, 0, len(s))
		for _, c := range s {
			bytes = append(bytes, byte(c))
		}
		return string(bytes)
	}), nil
}

func mapHeader(header map[string][]string, each func(string) string) map[string][]string {
	out := make(map[string][]string, len(header))
	for name, values := range header {
		mapped := make([]string, len(values))
		for i, v := range values {
			mapped[i] = each(v)
		}
		out[each(name)] = mapped
	}
	return out
}

// query reads all rows of a query; dest says which of a row's columns it has.
func query(ctx context.Context, tx onlyonce.Tx, dest func(*row) []any, text string, args ...any) (
	recs []onlyonce.Record, err error) {
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	for rows.Next() {
		var r row
		if err := rows.Scan(dest(&r)...); err != nil {
			return nil, err
		}
		rec, err := r.record()
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	return recs, rows.Err()
}

// scalar reads the one value of a query's first row and reports whether there
// was a row.
func scalar(ctx context.Context, tx onlyonce.Tx, dest any, text string, args ...any) (found bool, err error) {
	rows, err := tx.Query(ctx, text, args...)
	if err != nil {
		return false, err
	}
	defer func() {
		if e := rows.Close(); err == nil {
			err = e
		}
	}()
	if !rows.Next() {
		return false, rows.Err()
	}
	if err := rows.Scan(dest); err != nil {
		return false, err
	}
	return true, rows.Err()
}
