package db_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

func sealer(t *testing.T, fill byte) db.Sealer {
	t.Helper()
	s, err := db.NewSealer(bytes.Repeat([]byte{fill}, 32))
	must(t, err)
	return s
}

func TestSealers(t *testing.T) {
	plain, one, two := db.PlainSealer(), sealer(t, 1), sealer(t, 2)
	secret := []byte("pm_secret")
	byPlain, byOne, again := plain.Seal(secret), one.Seal(secret), one.Seal(secret)
	if byPlain[0] != 0 || byOne[0] != 1 || bytes.Contains(byOne, secret) || bytes.Equal(byOne, again) {
		t.Errorf("plain % x, sealed % x and % x", byPlain, byOne, again)
	}
	for _, c := range []struct {
		by     db.Sealer
		sealed []byte
		want   string // in the error; empty: it opens
	}{
		{plain, byPlain, ""}, {one, byPlain, ""}, {one, byOne, ""},
		{plain, byOne, "--secret-key-file"}, {two, byOne, "does not fit"},
		{one, byOne[:len(byOne)-1], "does not fit"}, {one, []byte{1}, "does not fit"},
		{one, []byte{9, 1}, "scheme 9"}, {plain, nil, "empty"},
	} {
		got, err := c.by.Open(c.sealed)
		opens := err == nil && bytes.Equal(got, secret)
		refused := err != nil && c.want != "" && strings.Contains(err.Error(), c.want)
		if opens == refused || opens != (c.want == "") {
			t.Errorf("open % x: %q, %v; want %q", c.sealed, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "pm_secret") {
			t.Error("the error shows the secret")
		}
	}
	for _, n := range []int{0, 16, 31, 33} {
		if _, err := db.NewSealer(make([]byte, n)); err == nil {
			t.Errorf("a key of %d bytes is taken", n)
		}
	}
}

// TestRequestIsSealedInTheTable: and blanked once it is not needed.
func TestRequestIsSealedInTheTable(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) { testSealedRequest(t, newBench(t, e, sealer(t, 1))) })
}

func testSealedRequest(t *testing.T, b *bench) {
	b.add("k", nil)
	column := func() (request []byte) {
		must(t, b.raw.QueryRowContext(t.Context(), "SELECT request FROM dispatches").Scan(&request))
		return request
	}
	if got := column(); len(got) == 0 || got[0] != 1 || bytes.Contains(got, []byte("pm_secret")) {
		t.Errorf("the table holds %q", got)
	}
	opened := ""
	keep := b.settle("k", func(_ *payments.Payment, d *payments.Dispatch) { opened = string(d.Request.Body) })
	must(t, b.db.Commit(t.Context(), keep))
	if got := column(); opened != "pm_secret" || got == nil {
		t.Errorf("a phase reads %q and leaves %q", opened, got)
	}
	blank := b.settle("k", func(_ *payments.Payment, d *payments.Dispatch) { d.Request.Body = nil })
	must(t, b.db.Commit(t.Context(), blank))
	if got := column(); got != nil {
		t.Errorf("the blanked request is %q", got)
	}
	must(t, b.db.Commit(t.Context(), keep))
	if opened != "" {
		t.Errorf("a blanked request reads %q", opened)
	}
}
