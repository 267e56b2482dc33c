package main

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/money"
	"github.com/onlyonce-go/onlyonce/payments"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares a picture with its file, and with the width of a terminal.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test -update writes it anew):\n%s\nwant:\n%s", path, got, want)
	}
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

var (
	noon    = time.Date(2026, 5, 1, 12, 0, 0, 123e6, time.UTC)
	printed = onlyonce.NewFingerprint([]byte("POST"), []byte("/payments"))
)

const (
	paymentID = "pay_folh4rggtmtrzehhbhafueko26"
	refundID  = "re_2i5kxsds6dxhlrnpx6lvzpd7l7"
)

func aPayment() payments.Payment {
	return payments.Payment{
		Account: "17", ID: paymentID, Key: "order-42", OrderID: "42", Amount: money.Amount{Minor: 2500, Currency: "USD"},
		Captured: 2500, State: payments.Succeeded, Instance: "sandbox:kb73kwabwxwlffar75v5trprd2",
		ProviderID: "pi_53LX6TT7EHBDT72IOBRS2ZTYXL", CreatedAt: noon, UpdatedAt: noon.Add(7 * time.Second),
	}
}

func someEvents(resource string) []payments.Event {
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	return []payments.Event{
		{Resource: resource, At: at(0), Type: payments.EventClaimed, State: payments.Processing, Attempt: 1},
		{
			Resource: resource, At: at(0), Type: payments.EventSent, State: payments.Processing, Attempt: 1,
			Detail: "provider key onlyonce_folh4rggtmtrzehhbhafueko26ax4olsaqwx5bnpbcbkgcgwxe3a",
		},
		{
			Resource: resource, At: at(6070), Type: payments.EventTakenOver, State: payments.PendingUnknown, Attempt: 2,
			Detail: "the attempt before it ended without an answer",
		},
		{
			Resource: resource, At: at(6073), Type: payments.EventAnswered, State: payments.Succeeded, Attempt: 3,
			Detail: "status 200",
		},
		{Resource: resource, At: at(6073), Type: payments.EventCompleted, State: payments.Succeeded, Attempt: 3},
	}
}

func aRecord() onlyonce.Record {
	return onlyonce.Record{
		Intent: onlyonce.Intent{
			Key: onlyonce.Key{Account: "17", Name: "order-42"}, Operation: "payments.create", Fingerprint: printed,
		},
		Status: onlyonce.Completed, Attempt: 3, Point: onlyonce.Unknown, Resource: paymentID, CreatedAt: noon,
		Outcome: &onlyonce.Outcome{
			Status: http.StatusCreated,
			Header: map[string][]string{"Location": {"/payments/" + paymentID}, "Content-Type": {"application/json"}},
			Body:   []byte(`{"id":"` + paymentID + `","amount":2500,"currency":"USD","description":"naïve ☕ two words"}`),
		},
		CompletedAt: noon.Add(7 * time.Second), ExpiresAt: noon.AddDate(0, 0, 30), Now: noon.Add(time.Minute),
	}
}

func TestPictureOfACompletedKey(t *testing.T) {
	pay := aPayment()
	golden(t, "key-completed", shownKey{record: aRecord(), payment: &pay, events: someEvents(paymentID)}.draw(paint{}))
}

func TestPictureOfAnUnknownRefund(t *testing.T) {
	pay, rec := aPayment(), aRecord()
	rec.Status, rec.Outcome, rec.Operation, rec.Resource = onlyonce.InProgress, nil, "refunds.create", refundID
	rec.LeaseUntil, rec.CompletedAt, rec.ExpiresAt = rec.Now.Add(-time.Second), time.Time{}, time.Time{}
	refund := payments.Refund{
		ID: refundID, PaymentID: paymentID, Amount: money.Amount{Minor: 1000, Currency: "USD"}, Reason: "broken\x1b[2J cup",
		State: payments.PendingUnknown, Instance: pay.Instance, CreatedAt: noon, UnknownSince: noon, NextCheckAt: noon,
	}
	s := shownKey{record: rec, payment: &pay, refund: &refund, events: someEvents(refundID)[:3]}
	golden(t, "key-unknown-refund", s.draw(paint{}))
}

func TestPictureOfATombstone(t *testing.T) {
	rec := aRecord()
	rec.Status, rec.Outcome = onlyonce.Tombstone, nil
	golden(t, "key-tombstone", shownKey{record: rec}.draw(paint{}))
}

func TestPictureOfAPayment(t *testing.T) {
	pay := aPayment()
	s := shownPayment{
		payment: pay, events: someEvents(paymentID), replays: 2, replayed: noon,
		refunds: []payments.Refund{{
			ID: refundID, PaymentID: paymentID, State: payments.Failed, DeclineCode: "expired_or_canceled_card", CreatedAt: noon,
		}},
		ofRefunds: [][]payments.Event{someEvents(refundID)[:1]},
	}
	golden(t, "payment", s.draw(paint{}))
}

func TestColoursOnlyWhereTheyAreWanted(t *testing.T) {
	pay := aPayment()
	s := shownKey{record: aRecord(), payment: &pay, events: someEvents(paymentID)}
	coloured := s.draw(paint{on: true})
	if !strings.Contains(coloured, "\x1b[32m") {
		t.Error("there is no green")
	}
	plain := coloured
	for _, code := range []string{"0", "1", "2", "31", "32", "33", "36"} {
		plain = strings.ReplaceAll(plain, "\x1b["+code+"m", "")
	}
	if plain != s.draw(paint{}) {
		t.Error("colours move something")
	}
	for _, env := range []map[string]string{nil, {"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		p := &program{env: lookup(env)}
		if p.paintFor(&strings.Builder{}).on {
			t.Errorf("%v: colours into a pipe", env)
		}
		if p.paintFor(os.Stdin).on && env != nil {
			t.Errorf("%v: colours although they are not wanted", env)
		}
	}
}

func TestLookingAtALiveServer(t *testing.T) {
	file := newDB(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("ab", secretKeyBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serving(t, file, "--secret-key-file", key)
	_, paid := charge(t, s.base, wellKnownKey, "a key", "tok_ok")
	charge(t, s.base, wellKnownKey, "other", "tok_declined")
	id, _ := paid["id"].(string)
	on := func(args ...string) result { return command(t, append(args, "--db", file)...) }

	says(t, on("keys", "show", "17", "a key").must(t, exitOK).stdout, "a key", id, "completed", "201", "timeline")
	var shown struct {
		Status   string
		Resource string
		Response struct{ Body string }
		Payment  struct{ State string }
		Timeline []eventRow
	}
	text := on("keys", "show", "17", "a key", "--json").must(t, exitOK).stdout
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		t.Fatal(err)
	}
	var stored map[string]any
	if err := json.Unmarshal([]byte(shown.Response.Body), &stored); err != nil || stored["id"] != id {
		t.Errorf("the stored body is %q", shown.Response.Body)
	}
	if shown.Status != "completed" || shown.Resource != id || shown.Payment.State != "succeeded" ||
		len(shown.Timeline) < 3 {
		t.Errorf("%+v", shown)
	}
	says(t, on("payments", "show", id).must(t, exitOK).stdout, id, "succeeded", "25.00 USD", "completed")
	says(t, on("payments", "show", id, "--json").must(t, exitOK).stdout, `"refunds":[]`, `"replays":0`)
	says(t, on("payments", "show", id, "--account", "18").must(t, exitFailed).stderr, "no payment "+id)
	says(t, on("payments", "show", "x").must(t, exitUsage).stderr, "pay_", "re_")
	says(t, on("keys", "show", "17", "none").must(t, exitFailed).stderr, `no key "none"`, "keys list")
	says(t, on("keys", "show", "17", " ").must(t, exitUsage).stderr, "blank")

	listed := on("keys", "list", "--json").must(t, exitOK).stdout
	if strings.Count(listed, "\n") != 2 || !strings.HasPrefix(listed, `{"account":"17","key":"other"`) {
		t.Errorf("not two keys, the newest first:\n%s", listed)
	}
	listed = on("keys", "list", "--limit", "1").must(t, exitOK).stdout
	if strings.Contains(listed, "a key") {
		t.Errorf("the limit is not kept:\n%s", listed)
	}
	says(t, on("keys", "list", "--status", "in_progress").must(t, exitOK).stdout, "no such key")
	says(t, on("keys", "list", "--limit", "0").must(t, exitUsage).stderr, "--limit", "1 to 1000")
	says(t, on("sweep").must(t, exitOK).stdout, "0 abandoned claims", "0 unknowns", "0 expired keys")
}
