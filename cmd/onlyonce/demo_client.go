package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	demoShop  = "17" // the account of most intents
	demoOther = "18" // another one that happens to use the same key

	clientTimeout = 40 * time.Second // above what any one answer takes, the 30 s of "Prefer: wait" included
	maxReply      = 1 << 20
)

func demoKey(account string) string { return "oo_test_demo_key_of_" + account }

// intent is something that a client wants done once, and what came of it.
type intent struct {
	story   string // what happened to it, for the table
	account string
	key     string
	order   string
	token   string
	payment string // its id, once it is known

	asked   int
	answers []string // the statuses, in order
	charges int
}

const demoAmount = 2500

// body is the request's; the same intent always has the same.
func (in *intent) body() []byte { return in.bodyOf(demoAmount) }

func (in *intent) bodyOf(amount int) []byte {
	return fmt.Appendf(nil, `{"orderId":%q,"amount":%d,"currency":"USD","paymentMethodToken":%q}`,
		in.order, amount, in.token)
}

// demoClient speaks to the server as a careful client does.
type demoClient struct {
	base string
	http *http.Client
}

func newDemoClient(base string) *demoClient {
	// No connection outlives its request: the server is killed between them.
	return &demoClient{base: base, http: &http.Client{
		Timeout: clientTimeout, Transport: &http.Transport{DisableKeepAlives: true},
	}}
}

// reply is what came back.
type reply struct {
	status   int
	replayed bool
	header   http.Header
	body     struct {
		ID, State, Type, Retry string
	}
}

func (c *demoClient) request(ctx context.Context, in *intent, body []byte, wait time.Duration) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/payments", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+demoKey(in.account))
	req.Header.Set("Idempotency-Key", in.key)
	req.Header.Set("Content-Type", "application/json")
	if wait > 0 {
		req.Header.Set("Prefer", "wait="+strconv.Itoa(int(wait.Seconds())))
	}
	return req, nil
}

// pay sends the intent once.
func (c *demoClient) pay(ctx context.Context, in *intent, body []byte, wait time.Duration) (reply, error) {
	req, err := c.request(ctx, in, body, wait)
	if err != nil {
		return reply{}, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header, replayed: resp.Header.Get("Idempotent-Replayed") == "true"}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&r.body); err != nil {
		return r, fmt.Errorf("read the answer: %w", err)
	}
	return r, nil
}

// sendOnly sends the intent and returns the connection, on which the answer
// will arrive that nobody reads.
func (c *demoClient) sendOnly(ctx context.Context, in *intent) (net.Conn, error) {
	req, err := c.request(ctx, in, in.body(), 0)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", req.URL.Host)
	if err != nil {
		return nil, err
	}
	if err := req.Write(conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// ledgerEntry is one line of the provider's ledger: money that moved.
type ledgerEntry struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	Amount   int64             `json:"amount"`
	Metadata map[string]string `json:"metadata"`
}

func (c *demoClient) ledger(ctx context.Context) ([]ledgerEntry, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/sandbox/ledger", nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var page struct{ Data []ledgerEntry }
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(&page); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	return page.Data, nil
}

func chargesOf(ledger []ledgerEntry, payment string) (n int) {
	for _, e := range ledger {
		if e.Type == "charge" && payment != "" && e.Metadata["onlyonce_payment"] == payment {
			n++
		}
	}
	return n
}

// describe puts an answer into words.
func (r reply) describe() (what, detail string) {
	what = strconv.Itoa(r.status) + " " + http.StatusText(r.status)
	var parts []string
	if r.body.Type != "" {
		_, name, _ := strings.Cut(path.Base(r.body.Type), "#")
		parts = append(parts, name, "retry: "+r.body.Retry)
	} else {
		parts = append(parts, r.body.State, short(r.body.ID))
	}
	if after := r.header.Get("Retry-After"); after != "" {
		parts = append(parts, "Retry-After: "+after)
	}
	if r.replayed {
		parts = append(parts, "Idempotent-Replayed: true")
	}
	return what, strings.Join(parts, ", ")
}

// short is enough of an id to tell it from others.
func short(id string) string {
	const shown = 12
	if len(id) <= shown {
		return id
	}
	return id[:shown] + "…"
}
