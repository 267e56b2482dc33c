package sandbox_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/provider/sandbox"
)

const (
	childFile   = "ONLYONCE_TEST_SANDBOX_FILE" // makes the test binary a sandbox process
	childSlowBy = "ONLYONCE_TEST_SANDBOX_SLOW_BY"
	patience    = 30 * time.Second
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		if err := serveChild(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveChild is a whole sandbox process; it ends by being killed, or with its
// standard input.
func serveChild(path string) error {
	slowBy, err := time.ParseDuration(os.Getenv(childSlowBy))
	if err != nil {
		return err
	}
	s, err := sandbox.Open(context.Background(), sandbox.Options{Path: path, SlowBy: slowBy})
	if err != nil {
		return err
	}
	l, err := listen()
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(l, s.Handler())
}

// listen takes a loopback port below the ephemeral ones.
func listen() (net.Listener, error) {
	var errs error
	for range 50 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			return l, nil
		}
		errs = errors.Join(errs, err)
	}
	return nil, errs
}

// box is a sandbox that is served, in this process or another.
type box struct {
	*testing.T
	*sandbox.Sandbox // nil in another process
	url              string
}

func open(t *testing.T, o sandbox.Options) box {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "sandbox.db")
	}
	s, err := sandbox.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s.Handler())
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return box{t, s, server.URL}
}

// spawn starts a sandbox in a process of its own and returns what kills it -9.
func spawn(t *testing.T, path string, slowBy time.Duration) (box, func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childFile+"="+path, childSlowBy+"="+slowBy.String())
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // its end ends the child, should this process die
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = stdin.Close()
	}
	t.Cleanup(kill)
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("the child said nothing: %v", err)
	}
	return box{t, nil, "http://" + strings.TrimSpace(addr)}, kill
}

// answer is what a client saw.
type answer struct {
	status   int
	replayed bool
	body     string
	err      error
	object   object
}

type object struct {
	ID             string            `json:"id"`
	Amount         int64             `json:"amount"`
	AmountReceived int64             `json:"amount_received"`
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	FailureReason  string            `json:"failure_reason"`
	PaymentIntent  string            `json:"payment_intent"`
	Metadata       map[string]string `json:"metadata"`
	HasMore        bool              `json:"has_more"`
	Data           []object          `json:"data"`
	Error          struct {
		Type        string `json:"type"`
		Code        string `json:"code"`
		DeclineCode string `json:"decline_code"`
	} `json:"error"`
}

func (b box) do(ctx context.Context, method, path, key, form string) answer {
	b.Helper()
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(form))
	if err != nil {
		b.Error(err)
		return answer{err: err}
	}
	req.Header.Set("Authorization", "Bearer sk_test_1")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.GetBody = nil // the sends are counted
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	a := answer{
		status: resp.StatusCode, replayed: resp.Header.Get("Idempotent-Replayed") == "true",
		body: string(body), err: err,
	}
	_ = json.Unmarshal(body, &a.object) // the garbage is part of the tests
	return a
}

func payment(token, amount, currency string) string {
	return url.Values{
		"amount": {amount}, "currency": {currency}, "payment_method": {token}, "payment_method_types[]": {"card"},
		"confirm": {"true"}, "error_on_requires_action": {"true"}, "metadata[onlyonce_payment]": {"p-1"},
	}.Encode()
}

func (b box) pay(key, token string) answer {
	b.Helper()
	return b.do(b.Context(), http.MethodPost, "/v1/payment_intents", key, payment(token, "2500", "usd"))
}

func (b box) refund(key, charge, amount string) answer {
	b.Helper()
	form := url.Values{"payment_intent": {charge}, "metadata[onlyonce_refund]": {"r-1"}}
	if amount != "" {
		form.Set("amount", amount)
	}
	return b.do(b.Context(), http.MethodPost, "/v1/refunds", key, form.Encode())
}

// never makes a call that is never answered: it hangs up once the condition
// holds.
func (b box) never(call func(ctx context.Context) answer, until func() bool) {
	b.Helper()
	ctx, hangUp := context.WithCancel(b.Context())
	defer hangUp()
	done := make(chan answer, 1)
	go func() { done <- call(ctx) }()
	b.await(until)
	select {
	case a := <-done:
		b.Errorf("it was answered: %+v", a)
	default:
	}
	hangUp()
	if a := <-done; a.err == nil {
		b.Errorf("it was answered: %+v", a)
	}
}

// await looks until the condition holds.
func (b box) await(until func() bool) {
	b.Helper()
	for end := time.Now().Add(patience); !until(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("it never came")
		}
	}
}

// entry is one line of the ledger.
type entry struct {
	ID             string            `json:"id"`
	Type           string            `json:"type"`
	Amount         json.Number       `json:"amount"`
	Currency       string            `json:"currency"`
	Status         string            `json:"status"`
	Metadata       map[string]string `json:"metadata"`
	IdempotencyKey string            `json:"idempotencyKey"`
	CreatedAt      string            `json:"createdAt"`
}

func (b box) ledger() []entry {
	b.Helper()
	resp, err := http.Get(b.url + "/sandbox/ledger")
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	var out struct {
		Data []entry `json:"data"`
	}
	decoder := json.NewDecoder(resp.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&out); err != nil {
		b.Fatalf("the ledger can't be read: %v", err)
	}
	if out.Data == nil {
		b.Fatal("the ledger has no data member")
	}
	return out.Data
}

// moved is how often the ledger shows the type.
func (b box) moved(kind string) int {
	b.Helper()
	n := 0
	for _, e := range b.ledger() {
		if e.Type == kind {
			n++
		}
	}
	return n
}
