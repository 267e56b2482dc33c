package httponce_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
)

// problems is every row of the contract's table.
var problems = []struct {
	p      *httponce.Problem
	name   string
	status int
	retry  httponce.Retry
	after  string
}{
	{httponce.KeyMissing(), "key-missing", 400, "fix", ""},
	{httponce.KeyInvalid("it is blank"), "key-invalid", 400, "fix", ""},
	{httponce.InvalidRequest("no"), "invalid-request", 400, "fix", ""},
	{httponce.Unauthorized(), "unauthorized", 401, "fix", ""},
	{httponce.Declined("card_declined"), "declined", 402, "new-key", ""},
	{httponce.InsufficientFunds(), "insufficient-funds", 402, "new-key", ""},
	{httponce.NotFound("payment"), "not-found", 404, "fix", ""},
	{httponce.MethodNotAllowed("GET", "POST"), "method-not-allowed", 405, "fix", ""},
	{httponce.TooLarge(64), "too-large", 413, "fix", ""},
	{httponce.UnsupportedMediaType(), "unsupported-media-type", 415, "fix", ""},
	{httponce.Misdirected("localhost"), "misdirected", 421, "fix", ""},
	{httponce.InFlight(0), "in-flight", 409, "same-key", "1"},
	{httponce.OrderBusy("p1"), "order-busy", 409, "new-key", ""},
	{httponce.Unresolved(1500 * time.Millisecond), "unresolved", 409, "same-key", "2"},
	{httponce.KeyExpired("payment p1"), "key-expired", 409, "new-key", ""},
	{httponce.KeyReuse(onlyonce.Record{}), "key-reuse", 422, "new-key", ""},
	{httponce.OverRefund("p1", 0), "over-refund", 422, "new-key", ""},
	{httponce.NotRefundable("p1"), "not-refundable", 422, "new-key", ""},
	{httponce.WalletExists(), "wallet-exists", 422, "new-key", ""},
	{httponce.RateLimited(3 * time.Second), "rate-limited", 429, "same-key", "3"},
	{httponce.Unavailable(5 * time.Second), "unavailable", 503, "same-key", "5"},
}

func TestProblems(t *testing.T) {
	for _, c := range problems {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			c.p.Write(w)
			p := wantProblem(t, w, c.status, c.name, string(c.retry))
			if got := w.Header().Get("Retry-After"); got != c.after {
				t.Errorf("Retry-After %q, want %q", got, c.after)
			}
			const base = "https://github.com/onlyonce-go/onlyonce/blob/main/docs/reference/problems.md#"
			if p.Type != base+c.name || p.Title == "" || p.Detail == "" {
				t.Errorf("got %+v", p)
			}
			switch c.retry {
			case "same-key": // case 88
				if !strings.Contains(p.Detail, "the same key") || !strings.Contains(p.Detail, c.after+" second") {
					t.Errorf("it does not say: the same key, after %s s: %s", c.after, p.Detail)
				}
			case "new-key":
				if !strings.Contains(p.Detail, "new key") {
					t.Errorf("it does not say: a new key: %s", p.Detail)
				}
			}
			if o := c.p.Outcome(); o.Status != c.status || string(o.Body) != w.Body.String() || o.Header["Retry-After"] != nil {
				t.Errorf("stored as %v", o)
			}
		})
	}
	w := httptest.NewRecorder()
	httponce.MethodNotAllowed("GET", "POST").Write(w)
	if got := w.Header().Get("Allow"); got != "GET, POST" {
		t.Errorf("Allow %q", got)
	}
	w = httptest.NewRecorder()
	httponce.Unauthorized().Write(w)
	if got := w.Header().Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("WWW-Authenticate %q", got)
	}
}

// The page that the types point to has a heading for each of them and no other,
// with the status and the retry that the constructor has.
func TestProblemsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/problems.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	for _, c := range problems {
		text, ok := sections[c.name]
		if !ok {
			t.Errorf("problems.md has no heading %q", c.name)
			continue
		}
		delete(sections, c.name)
		line := fmt.Sprintf("**Status** %d · **Retry** `%s`", c.status, c.retry)
		if c.after != "" {
			line += ", after `Retry-After`"
		}
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s: the page does not say %q", c.name, line)
		}
		if !strings.Contains(text, "**Do:** ") {
			t.Errorf("%s: the page does not say what to do", c.name)
		}
	}
	for name := range sections {
		t.Errorf("problems.md has a heading %q and no constructor makes it", name)
	}
}

func TestProblemMembers(t *testing.T) {
	p := httponce.OverRefund("p1", 0)
	p.RefundID, p.TransferID, p.DeclineCode = "r1", "t1", "c"
	p.Errors = []httponce.FieldError{{Pointer: "/a", Detail: "d"}}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"paymentId": "p1", "refundId": "r1", "transferId": "t1", "declineCode": "c",
		"refundable": 0.0} {
		if m[name] != want {
			t.Errorf("%s is %v, want %v", name, m[name], want)
		}
	}
	raw, _ = json.Marshal(httponce.NotFound("payment"))
	if regexp.MustCompile(`Id|refundable|errors|declineCode`).Match(raw) {
		t.Errorf("members that do not apply: %s", raw)
	}
}

// Case 26: a changed request learns how the first one ended.
func TestKeyReuseSaysHowItStands(t *testing.T) {
	done := func(status int) onlyonce.Record {
		return onlyonce.Record{Status: onlyonce.Completed, Outcome: &onlyonce.Outcome{Status: status}}
	}
	for _, c := range []struct {
		rec  onlyonce.Record
		says string
	}{
		{done(402), "finished: it ended as a definite decline"},
		{done(201), "finished: it succeeded"},
		{done(422), "finished: it ended with status 422"},
		{onlyonce.Record{Status: onlyonce.Tombstone}, "finished"},
		{onlyonce.Record{Status: onlyonce.InProgress, Point: onlyonce.Dispatched}, "not finished yet"},
		{onlyonce.Record{Status: onlyonce.InProgress, Point: onlyonce.Unknown}, "not known yet"},
	} {
		detail := httponce.KeyReuse(c.rec).Detail
		if !strings.Contains(detail, c.says) || !strings.Contains(detail, "needs a new key") {
			t.Errorf("%v: %s", c.rec.Status, detail)
		}
		if c.rec.Point == onlyonce.Unknown && strings.Contains(detail, "failed") { // case 91
			t.Errorf("an unknown is called failed: %s", detail)
		}
	}
}

func TestFromError(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("claim: %w", err) }
	for _, c := range []struct {
		err  error
		name string
	}{
		{onlyonce.Key{}.Validate(), "key-invalid"},
		{wrap(onlyonce.ErrMismatch), "key-reuse"},
		{wrap(onlyonce.ErrInFlight), "in-flight"},
		{wrap(onlyonce.ErrFenced), "in-flight"},
		{wrap(onlyonce.ErrUnknown), "unresolved"},
		{wrap(onlyonce.ErrExpired), "key-expired"},
		{wrap(onlyonce.ErrFingerprintVersion), "unavailable"},
		{wrap(onlyonce.ErrCommitUnknown), "unavailable"},
		{errors.New("secret dsn"), "unavailable"},
		{wrap(httponce.NotFound("wallet")), "not-found"},
	} {
		p := httponce.FromError(c.err)
		if p.Type != c.name || strings.Contains(p.Detail, "secret") {
			t.Errorf("%v: got %v", c.err, p)
		}
	}
	p := httponce.FromDecision(onlyonce.Record{Resource: "payment p1"}, onlyonce.ErrExpired)
	if !strings.Contains(p.Detail, "payment p1") {
		t.Errorf("it does not name what the key made: %s", p.Detail)
	}
}
