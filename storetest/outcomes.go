package storetest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// allBytes is a body that no text type keeps.
func allBytes() []byte {
	b := make([]byte, 0, 1<<16)
	for i := range 1 << 16 {
		b = append(b, byte(i>>8), byte(i))
	}
	return b
}

// testOutcomeBytes stores outcomes and expects the same bytes back, from the
// row and from the engine.
func testOutcomeBytes(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{})
	outcomes := map[string]onlyonce.Outcome{
		"empty":  {},
		"status": {Status: 204, Body: []byte{}},
		"text":   {Status: 201, Header: map[string][]string{"Location": {"/payments/1"}}, Body: []byte(`{"id":1}`)},
		"binary": {Status: 200, Body: allBytes()},
		"header": {Status: 200, Header: map[string][]string{
			"Etag": {`"a"`}, "X-Latin": {"caf\xe9", "\x80\xff"}, "X-Utf8": {"naïve ☃"}, "X-Html": {"<a&b>"}, "X-Empty": {""},
			"X-Many": {"1", "2", "1"}, "X-Odd": {"\u2028\ufffd"},
		}},
		"four": {
			Status: 200, Header: map[string][]string{"X-Four": {"\U0001f4b6"}}, Body: []byte("\U0001f4b6\U0001d11e\U0010ffff"),
		},
		"nul":   {Status: 500, Body: []byte("a\x00b")},
		"large": {Status: 200, Body: bytes.Repeat([]byte{0xfe}, 1<<20)},
	}
	for name, o := range outcomes {
		in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
			d, err := once.Begin(ctx, tx, intent(name, "body"))
			if err != nil {
				return err
			}
			return once.Finish(ctx, tx, *d.Claim, o)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(outcomes)) {
		want := outcomes[name]
		in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
			d, err := once.Begin(ctx, tx, intent(name, "body"))
			if err != nil {
				return err
			}
			got := *d.Outcome
			if got.Status != want.Status || !bytes.Equal(got.Body, want.Body) || got.Body == nil ||
				len(got.Header)+len(want.Header) > 0 && !reflect.DeepEqual(got.Header, want.Header) {
				t.Errorf("outcome %s came back changed: status %d, %d bytes, header %q; want %d, %d, %q", name,
					got.Status, len(got.Body), got.Header, want.Status, len(want.Body), want.Header)
			}
			return nil
		})
	}
}

// testOutcomeHeaders stores headers that belong to one connection, moment or
// session, and expects none of them back.
func testOutcomeHeaders(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{})
	header := map[string][]string{"Content-Type": {"text/plain"}, "location": {"/x"}}
	for _, name := range []string{
		"Set-Cookie", "set-cookie", "Date", "WWW-Authenticate", "Request-Id", "X-Request-Id", "Connection", "Keep-Alive",
		"Transfer-Encoding", "Content-Length", "RateLimit-Policy", "X-RateLimit-Remaining", "Retry-After", "Trailer",
	} {
		header[name] = []string{"secret"}
	}
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		d, err := once.Begin(ctx, tx, intent("k", "body"))
		if err != nil {
			return err
		}
		return once.Finish(ctx, tx, *d.Claim, onlyonce.Outcome{Status: 200, Header: header})
	})
	want := map[string][]string{"Content-Type": {"text/plain"}, "Location": {"/x"}}
	if got := load(t, s, intent("k", "").Key).Outcome.Header; !reflect.DeepEqual(got, want) {
		t.Errorf("stored header %q, want %q", got, want)
	}
}

// testOutcomeTooLarge expects an outcome over the limit to be refused before
// anything is written.
func testOutcomeTooLarge(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{})
	for name, o := range map[string]onlyonce.Outcome{
		"body":   {Body: make([]byte, 1<<20+1)},
		"header": {Header: map[string][]string{"X": {strings.Repeat("x", 1<<20)}}},
	} {
		err := s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
			d, err := once.Begin(ctx, tx, intent(name, "body"))
			if err != nil {
				return err
			}
			return once.Finish(ctx, tx, *d.Claim, o)
		})
		if !errors.Is(err, onlyonce.ErrOutcomeTooLarge) {
			t.Errorf("%s: %v, want ErrOutcomeTooLarge", name, err)
		}
		if rec := load(t, s, intent(name, "").Key); rec.Status != "" {
			t.Errorf("%s: the key is %q, want it free", name, rec.Status)
		}
	}
}

// testFingerprintVersion doctors a row that another release wrote: whether it
// is the same request can't be told, so it is neither a mismatch nor a replay.
func testFingerprintVersion(t *testing.T, s Subject) {
	once := engine(t, s, onlyonce.Options{})
	c := claim("k", "newer release")
	c.Fingerprint = "\x02" + c.Fingerprint[1:]
	for _, finish := range []bool{false, true} {
		in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
			if !finish {
				_, err := s.Store.Claim(ctx, tx, []onlyonce.Claim{c})
				return err
			}
			_, err := s.Store.Finish(ctx, tx, []onlyonce.Claim{c}, make([]onlyonce.Outcome, 1), keep)
			return err
		})
		for _, body := range []string{"body", "other"} {
			err := s.Tx.InTx(t.Context(), func(ctx context.Context, tx onlyonce.Tx) error {
				_, err := once.Begin(ctx, tx, intent("k", body))
				return err
			})
			if !errors.Is(err, onlyonce.ErrFingerprintVersion) {
				t.Errorf("finished %v, body %q: %v, want ErrFingerprintVersion", finish, body, err)
			}
		}
	}
}

// testRecordFields follows every field of a row through its life.
func testRecordFields(t *testing.T, s Subject) {
	c := claim("k", mine)
	c.Resource, c.Operation = "r0 \U0001f4b6", "\U0001d11e"
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := s.Store.Claim(ctx, tx, []onlyonce.Claim{c})
		return err
	})
	first := load(t, s, c.Key)
	if first.Intent != c.Intent || first.Attempt != 1 || first.Point != onlyonce.Started || first.Resource != c.Resource ||
		!first.CompletedAt.IsZero() || !first.ExpiresAt.IsZero() || first.Outcome != nil ||
		!first.LeaseUntil.Equal(first.CreatedAt.Add(c.Lease)) || first.Now.Before(first.CreatedAt) {
		t.Errorf("after the claim: %+v", first)
	}
	s.Skew(time.Hour)
	c.Resource = "r1 \U0001f4b7"
	in(t, s, func(ctx context.Context, tx onlyonce.Tx) error {
		_, err := s.Store.Finish(ctx, tx, []onlyonce.Claim{c}, []onlyonce.Outcome{{Status: 200}}, keep)
		return err
	})
	rec := load(t, s, c.Key)
	if rec.Resource != c.Resource || !rec.CreatedAt.Equal(first.CreatedAt) ||
		rec.CompletedAt.Sub(rec.CreatedAt) < time.Hour ||
		!rec.ExpiresAt.Equal(rec.CompletedAt.Add(keep)) || rec.Outcome == nil || rec.Intent != c.Intent {
		t.Errorf("after the finish: %+v", rec)
	}
}
