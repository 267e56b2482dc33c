package integration_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// client talks to one server as one account. Each request has a connection of
// its own, so that a killed server leaves nothing behind.
type client struct {
	t    *testing.T
	base string
	key  string
}

// request is one POST for an intent.
type request struct {
	path, key, body string
	header          [2]string // one more header, if its name is not empty
}

// reply is an answer that was read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

const (
	callTimeout = 40 * time.Second // longer than the longest "Prefer: wait"
	maxReply    = 1 << 20
	retryPause  = 20 * time.Millisecond // of the client, far below what it is asked for
)

// payment is an ordinary payment request of 2500 USD.
func payment(key, order, token string) request {
	return paymentOf(key, order, token, 2500)
}

func paymentOf(key, order, token string, amount int) request {
	body := fmt.Sprintf(`{"amount":%d,"currency":"USD","paymentMethodToken":%q`, amount, token)
	if order != "" {
		body += fmt.Sprintf(`,"orderId":%q`, order)
	}
	return request{path: "/payments", key: key, body: body + "}"}
}

func refund(paymentID, key string, amount int) request {
	return request{path: "/payments/" + paymentID + "/refunds", key: key, body: fmt.Sprintf(`{"amount":%d}`, amount)}
}

// send sends the request once. An error means that no whole answer came.
func (c client) send(r request) (reply, error) {
	req, err := http.NewRequest(http.MethodPost, c.base+r.path, strings.NewReader(r.body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", r.key)
	if r.header[0] != "" {
		req.Header.Set(r.header[0], r.header[1])
	}
	return roundTrip(req)
}

func roundTrip(req *http.Request) (reply, error) {
	// No keep-alive: Go's transport would re-send on a broken connection.
	once := http.Client{Timeout: callTimeout, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := once.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	return reply{resp.StatusCode, resp.Header, body}, err
}

// must sends the request and insists on an answer.
func (c client) must(r request) reply {
	c.t.Helper()
	got, err := c.send(r)
	if err != nil {
		c.t.Fatalf("POST %s with key %s: %v", r.path, r.key, err)
	}
	return got
}

// sent sends the request in the background. The channel gets its answer; one
// with status 0 if none came.
func (c client) sent(r request) <-chan reply {
	answer := make(chan reply, 1)
	go func() {
		got, err := c.send(r)
		if err != nil {
			got = reply{body: []byte(err.Error())}
		}
		answer <- got
	}()
	return answer
}

// get reads a resource.
func (c client) get(path string) map[string]any {
	c.t.Helper()
	o, err := c.read(path)
	if err != nil {
		c.t.Fatal(err)
	}
	return o
}

// read is get for use beside the test's own goroutine.
func (c client) read(path string) (o map[string]any, err error) {
	req, err := http.NewRequest(http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	got, err := roundTrip(req)
	if err == nil && got.status != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d: %s", path, got.status, got.body)
	}
	if err != nil {
		return nil, err
	}
	return o, json.Unmarshal(got.body, &o)
}

// final sends the request again and again, as a client is told to, until its
// answer is the last word. What may come before is checked on the way.
func (c client) final(r request, within time.Duration) reply {
	c.t.Helper()
	var got reply
	eventually(c.t, within, "the final answer to "+r.path+" with key "+r.key, func() bool {
		got = c.must(r)
		if got.open() {
			got.checkOpen(c.t)
			time.Sleep(retryPause)
			return false
		}
		return true
	})
	return got
}

// open reports whether the answer tells to send the same request again.
func (r reply) open() bool {
	return r.status == http.StatusAccepted || r.status == http.StatusServiceUnavailable ||
		r.status == http.StatusConflict && slices.Contains([]string{"in-flight", "unresolved"}, r.problem())
}

// checkOpen checks that an answer that is not final says so, and when to come
// back, and never that the payment failed.
func (r reply) checkOpen(t *testing.T) {
	t.Helper()
	if after := r.header.Get("Retry-After"); after == "" || after == "0" {
		t.Errorf("status %d without a Retry-After of a second or more: %q", r.status, after)
	}
	o := r.object(t)
	if r.status == http.StatusAccepted {
		if o["state"] != "pending_unknown" && o["state"] != "review" || r.header.Get("Location") == "" {
			t.Errorf("202 with state %v and Location %q", o["state"], r.header.Get("Location"))
		}
		return
	}
	if o["retry"] != "same-key" {
		t.Errorf("status %d tells the client to retry with %v: %s", r.status, o["retry"], r.body)
	}
}

// problem is the end of a problem's type, "" if it is none.
func (r reply) problem() string {
	var p struct{ Type string }
	if json.Unmarshal(r.body, &p) != nil {
		return ""
	}
	_, name, _ := strings.Cut(p.Type, "#")
	return name
}

// named is the first of these members that the body has, as text.
func (r reply) named(members ...string) string {
	var o map[string]any
	if json.Unmarshal(r.body, &o) != nil {
		return ""
	}
	for _, m := range members {
		if text, ok := o[m].(string); ok {
			return text
		}
	}
	return ""
}

func (r reply) object(t *testing.T) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal(r.body, &o); err != nil {
		t.Fatalf("status %d with a body that is no JSON object: %v: %q", r.status, err, r.body)
	}
	return o
}

// is checks status and, for problems, the type.
func (r reply) is(t *testing.T, status int, problem string) {
	t.Helper()
	if r.status != status || r.problem() != problem {
		t.Errorf("got %d %q, want %d %q: %s", r.status, r.problem(), status, problem, r.body)
	}
}

func (r reply) replayed() bool { return r.header.Get("Idempotent-Replayed") == "true" }

// storedHeaders are those of an outcome that every replay repeats.
var storedHeaders = []string{"Content-Type", "Location"}

// checkReplay checks that an answer is the replay of another: status, bytes
// and stored headers are equal, and it says what it is.
func (r reply) checkReplay(t *testing.T, of reply) {
	t.Helper()
	if !r.replayed() {
		t.Errorf("status %d is not marked as a replay", r.status)
	}
	r.checkSame(t, of)
}

// checkSame is checkReplay for an answer that need not say that it is one.
func (r reply) checkSame(t *testing.T, of reply) {
	t.Helper()
	if r.status != of.status || !bytes.Equal(r.body, of.body) {
		t.Errorf("the answers differ:\n%d %s\n%d %s", of.status, of.body, r.status, r.body)
	}
	for _, name := range storedHeaders {
		if got, want := r.header.Values(name), of.header.Values(name); !slices.Equal(got, want) {
			t.Errorf("the answer has %s %q, the first one %q", name, got, want)
		}
	}
}

// entry is one line of the provider's ledger.
type entry struct {
	ID             string
	Type           string
	Amount         int64
	Metadata       map[string]string
	IdempotencyKey string
}

func (e entry) text() string { return fmt.Sprintf("%s %d", e.Type, e.Amount) }

func readLedger(t *testing.T, base string) []entry {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, base+"/sandbox/ledger", nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := roundTrip(req)
	if err != nil || got.status != http.StatusOK {
		t.Fatalf("read the ledger: status %d, %v", got.status, err)
	}
	var list struct{ Data []entry }
	if err := json.Unmarshal(got.body, &list); err != nil {
		t.Fatalf("read the ledger: %v", err)
	}
	return list.Data
}
