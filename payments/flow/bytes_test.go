package flow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

var pageOf100 = db.Page{Limit: 100}

// oddTexts differ in ways that some collation, some encoding or some cleaning
// takes for no difference.
var oddTexts = []string{
	"A1", "a1", "a1 ", " a1", "a1  ", "ä", "a\u0308", "𝄞", "ß", "ss", "ı", "i", "%", "_", "\\", "'", "\"", "--", "?", "$1",
	"\u00a0", "\ufeff", "\u200b", "NULL", "0", "00", "\x7f", "\t", "é", "É", "\U0010ffff", "{\"a\":1}", "\\x41", "x'41'",
}

// TestOddTextsAreTheirOwn is case 6 of the reports: keys and orders that differ
// in one byte are two, on every engine.
func TestOddTextsAreTheirOwn(t *testing.T) { onEach(t, testOddTextsAreTheirOwn) }

func testOddTextsAreTheirOwn(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	for i, text := range oddTexts {
		id := w.paid(fmt.Sprint("order", i), text)
		list, _, err := w.db.Payments(t.Context(), account, db.Filter{OrderID: text}, pageOf100)
		if err != nil || len(list) != 1 || list[0].ID != id || list[0].OrderID != text {
			t.Errorf("order %q: %d payments, %v", text, len(list), err)
		}
		if (onlyonce.Key{Account: account, Name: text}).Validate() != nil {
			continue // no key may hold it
		}
		w.paid(text, "")
		list, _, err = w.db.Payments(t.Context(), account, db.Filter{Key: text}, pageOf100)
		if err != nil || len(list) != 1 {
			t.Errorf("key %q: %d payments, %v", text, len(list), err)
		}
	}
}

// TestLimitsAreTheSame is cases 5 and 8 of the reports: what is too long, or no
// text, is refused before the claim, on every engine alike; what is just short
// enough is stored whole.
func TestLimitsAreTheSame(t *testing.T) { onEach(t, testLimitsAreTheSame) }

func testLimitsAreTheSame(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	longest := strings.Repeat("k", 255)
	id := w.paid(longest, strings.Repeat("𝄞", 255))
	if a, err := w.pay(longest + "k"); !errors.Is(err, onlyonce.ErrInvalidKey) {
		t.Errorf("a key of 256 characters: %s", show(a, err))
	}
	for _, r := range []flow.PaymentRequest{
		{OrderID: strings.Repeat("o", 256)}, {OrderID: "a\x00b"}, {OrderID: "\xff"},
		{Description: strings.Repeat("d", 1001)}, {Description: "a\x00b"}, {Description: "\xed\xa0\x80"},
	} {
		r.Amount = usd(1)
		a, err := w.flow.Pay(t.Context(), intentOf("refused", flow.OpPayment), r)
		if !errors.Is(err, flow.ErrInvalid) || w.record("refused").Status != "" {
			t.Errorf("%.20q %.20q: %s", r.OrderID, r.Description, show(a, err))
		}
	}
	for _, reason := range []string{strings.Repeat("r", 501), "\x00", "\xff"} {
		a, err := w.flow.Refund(t.Context(), intentOf("refused", flow.OpRefund), flow.RefundRequest{
			PaymentID: id, Reason: reason,
		})
		if !errors.Is(err, flow.ErrInvalid) || w.record("refused").Status != "" {
			t.Errorf("reason %.20q: %s", reason, show(a, err))
		}
	}
	for _, absent := range []string{"pay_\x00", "\xff", strings.Repeat("p", 4000)} {
		if a, err := w.refund("refused", absent, 1); show(a, err) != "not stored: not-found" {
			t.Errorf("a refund of %.20q: %s", absent, show(a, err))
		}
	}
	if n := len(w.fake.seen("")); n != 1 {
		t.Errorf("%d calls, want the one payment's", n)
	}
}

// TestOddAnswersAreStored: whatever words a provider finds, what it did is
// stored.
func TestOddAnswersAreStored(t *testing.T) { onEach(t, testOddAnswersAreStored) }

func testOddAnswersAreStored(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	for i, word := range []string{"\x00", "\xff\xfe", strings.Repeat("𝄞", 1<<20), "a\x00b", "ü"} {
		key := fmt.Sprint("k", i)
		w.fake.script(reply{kind: payments.AnswerFailed, code: word})
		send := func() (flow.Answer, error) { return w.pay(key) }
		if a, err := send(); err != nil || a.Outcome == nil || a.Outcome.Status != 402 {
			t.Fatalf("a decline with the code %.20q: %.200s", word, show(a, err))
		}
		w.checkSettled(key, send)
	}
}

// TestTheSameBytesOnEveryEngine plays one script on each engine, under one
// installation's name and at one time, and compares all that is stored.
func TestTheSameBytesOnEveryEngine(t *testing.T) {
	first, told := "", ""
	onEach(t, func(t *testing.T, b *bed) {
		got := playScript(t, b)
		if told == "" {
			first, told = got, b.e.Name
		}
		if got != first {
			t.Errorf("%s stores\n%s\nand %s stores\n%s", b.e.Name, got, told, first)
		}
	})
}

// oddTimes are ten seconds past a minute, so that a script fits into it.
var oddTimes = []time.Time{
	time.Date(2028, 2, 29, 23, 58, 10, 0, time.UTC), // a leap day's end
	time.Date(2026, 3, 29, 0, 59, 10, 0, time.UTC),  // summer time begins in Europe
	time.Date(2026, 10, 25, 0, 59, 10, 0, time.UTC), // the hour that comes twice there
}

// playScript pays and refunds in odd words and returns what is stored then.
func playScript(t *testing.T, b *bed) string {
	w := b.world(t, setup{flow: flow.Options{
		Installation: "0123456789abcdef", Render: func(r flow.Result) onlyonce.Outcome {
			o := render(r)
			if r.Payment != nil {
				text, err := json.Marshal(r.Payment)
				must(t, err)
				o.Body = append(o.Body, minutes(string(text), r.Payment.CreatedAt, r.Payment.UpdatedAt)...)
			}
			return o
		},
	}})
	var script strings.Builder
	for i, text := range oddTexts {
		start := oddTimes[i%len(oddTimes)]
		w.clock.advance(start.Sub(w.clock.now()))
		key := fmt.Sprintf("key %d ~", i)
		if (onlyonce.Key{Account: account, Name: text}).Validate() == nil {
			key = text
		}
		amounts := []int64{1, 999_999_999_999, math.MaxInt64, 1 << 53, 1<<53 + 1}
		w.fake.script()
		if i%5 == 4 {
			w.fake.script(reply{kind: payments.AnswerFailed, code: "code_" + text})
		}
		amount := usd(amounts[i%len(amounts)])
		a, err := w.flow.Pay(t.Context(), intentOf(key, flow.OpPayment, text), flow.PaymentRequest{
			OrderID: text, Amount: amount, Method: "pm_" + text, Description: strings.Repeat(text, 10),
			RequestID: "req_" + key, Metadata: map[string]string{text: text, "<&>": "\u2028\x00"},
		})
		fmt.Fprintln(&script, key, show(a, err))
		id := w.record(key).Resource
		if a.Outcome.Status == 201 {
			a, err = w.refund("r"+key, id, amount.Minor/2+1)
			fmt.Fprintln(&script, show(a, err))
			a, err = w.refund("all"+key, id, 0)
			fmt.Fprintln(&script, show(a, err))
		}
		w.tell(&script, id, start)
	}
	return script.String()
}

// tell writes down what is stored of a payment. Of its times only the minute
// is the same in two runs.
func (w *world) tell(b *strings.Builder, id string, start time.Time) {
	w.t.Helper()
	p := w.payment(id)
	text, err := json.Marshal(p)
	must(w.t, err)
	fmt.Fprintln(b, minutes(string(text), p.CreatedAt, p.UpdatedAt))
	early, late := start.Add(-time.Millisecond), start.Add(40*time.Second)
	if at := p.CreatedAt; at.Before(early) || at.After(late) || at.Location() != time.UTC {
		w.t.Errorf("begun at %v, and it is stored as of %v", start, at)
	}
	for _, e := range w.timeline(id) {
		fmt.Fprintln(b, e.Type, e.State, e.Version, e.Attempt, e.Detail, e.At.Format("2006-01-02T15:04Z07:00"))
	}
}

// minutes cuts the times in a text down to the minute.
func minutes(text string, times ...time.Time) string {
	for _, at := range times {
		text = strings.ReplaceAll(text, at.Format(time.RFC3339Nano), at.Format("2006-01-02T15:04Z07:00"))
	}
	return text
}
