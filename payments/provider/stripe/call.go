package stripe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
)

const (
	// maxAnswer bounds one answer; a page of 100 objects has about 400 KB.
	maxAnswer = 4 << 20
	// maxWord bounds an id or code that is taken out of an answer.
	maxWord = 255
)

var paths = map[payments.Kind]string{
	payments.KindPayment: "/v1/payment_intents",
	payments.KindRefund:  "/v1/refunds",
}

// Execute sends d.Request under d.ProviderKey, once. See provider.Provider.
func (c *Client) Execute(ctx context.Context, d payments.Dispatch, sendBy time.Time) payments.Answer {
	path, ok := paths[d.Kind]
	if !ok || len(d.Request.Body) == 0 || d.ProviderKey == "" || sendBy.IsZero() {
		return payments.Answer{Kind: payments.AnswerNotSent, Detail: "the dispatch lacks its request, key or deadline"}
	}
	g := &gate{by: sendBy, now: c.o.Now}
	r, err := c.call(ctx, call{
		method: http.MethodPost, path: path, body: d.Request.Body, key: d.ProviderKey, version: d.Request.Version,
	}, g)
	answer := payments.Answer{Kind: payments.AnswerMaybe}
	switch {
	case err == nil:
		answer = classify(d, r)
	case g.shut():
		answer = payments.Answer{Kind: payments.AnswerNotSent, Detail: reason(err)}
	default:
		answer.Detail = reason(err)
	}
	c.log(ctx, "provider call", d, answer)
	return answer
}

func (c *Client) log(ctx context.Context, what string, d payments.Dispatch, a payments.Answer) {
	c.o.Log.LogAttrs(ctx, slog.LevelDebug, what, slog.String("account", d.Account), slog.String("key", d.Key),
		slog.String("resource", d.Resource), slog.Int("attempt", d.Sends),
		slog.String("answer", string(a.Kind)), slog.String("detail", a.Detail))
}

type call struct {
	method, path string
	body         []byte
	key, version string
}

// reply is an answer that was read to its end.
type reply struct {
	status    int
	replayed  bool
	requestID string
	body      []byte
}

// call makes one exchange. Every header is built anew, so that nothing of one
// call, its key above all, can stand in the next.
func (c *Client) call(ctx context.Context, in call, g *gate) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if conn, ok := info.Conn.(*gatedConn); ok {
				conn.set(g)
			}
		},
	})
	req, err := http.NewRequestWithContext(ctx, in.method, c.o.URL+in.path, nil)
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+c.o.Key)
	req.Header.Set("Stripe-Version", in.version)
	if in.body != nil {
		// No GetBody: the transport repeats a POST that carries an
		// Idempotency-Key when a kept-alive connection breaks, unless it can't
		// rewind the body.
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(in.body)), int64(len(in.body))
		req.Header.Set("Idempotency-Key", in.key)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := c.http.RoundTrip(req) // and not a Client's Do, which would follow redirects
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return reply{}, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > maxAnswer {
		return reply{}, errTooLarge
	}
	return reply{
		status: resp.StatusCode, replayed: resp.Header.Get("Idempotent-Replayed") == "true",
		requestID: word(resp.Header.Get("Request-Id")), body: body,
	}, nil
}

var errTooLarge = errors.New("the answer is too large")

// reason tells a failed exchange in our own words: the texts of the libraries
// can hold what the peer sent, and with it what we sent.
func reason(err error) string {
	for _, own := range []error{errLate, errSealed, errTooLarge} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &dns):
		return "the provider's name can't be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the provider refuses connections"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the end of the answer"
	case errors.Is(err, context.Canceled):
		return "the call was given up"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return "the connection failed"
}

// word is an id or code of the provider, or "" if it can't be one.
func word(s string) string {
	if len(s) > maxWord || strings.ContainsFunc(s, notToken) {
		return ""
	}
	return s
}
