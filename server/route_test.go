package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/server"
)

// TestNothingHere: what is not a path of the API is 404, without a redirect
// and before anybody is asked to sign in.
func TestNothingHere(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("K", body1)).want(http.StatusCreated)
	for _, path := range []string{
		"/", "/payments/", "//payments", "/payments//events", "/payments/" + p.ID + "/", "/./payments", "/x/../payments",
		"/payments/" + p.ID + "/events/", "/payments/" + p.ID + "/capture", "/PAYMENTS", "/wallets", "/transfers",
		"/webhooks/stripe", "/webhook-endpoint", "/metrics", "/console", "/sandbox/ledger", "/v1/payment_intents",
		"/payments%2F" + p.ID,
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			c := call{Method: method, Path: path, Key: "N", Body: body1, Header: http.Header{"Authorization": nil}}
			w.send(c).want(http.StatusNotFound, "not-found", "fix")
		}
	}
	w.wantMoved("charge 1000 usd")
}

// TestForeignIDs: an id that is none is 404, whatever is in it.
func TestForeignIDs(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("K", body1)).want(http.StatusCreated)
	for _, id := range []string{
		"x", "pay_", "pay_" + strings.Repeat("a", 26), strings.ToUpper(p.ID), p.ID + "a", p.ID + "%00", p.ID + "%2F",
		"%2e%2e",
		"..%2f..", "%27%20OR%201=1", "%ff", strings.Repeat("a", 5000), "re_" + p.ID[4:],
	} {
		for _, path := range []string{"/payments/%s", "/payments/%s/events", "/payments/%s/refunds", "/refunds/%s"} {
			w.send(get(fmt.Sprintf(path, id))).want(http.StatusNotFound, "not-found", "fix")
		}
	}
	w.send(get("/refunds/"+p.ID)).want(http.StatusNotFound, "not-found", "fix")
	w.send(get("/payments/%70" + p.ID[1:])).want(http.StatusOK) // an escaped letter is that letter
}

func TestMethods(t *testing.T) {
	w := newWorld(t, setup{})
	for path, allow := range map[string]string{
		"/payments": "GET, HEAD, POST", "/payments/x": "GET, HEAD", "/payments/x/events": "GET, HEAD",
		"/payments/x/refunds": "GET, HEAD, POST", "/refunds/x": "GET, HEAD", "/healthz": "GET, HEAD",
		"/readyz": "GET, HEAD", "/openapi.yaml": "GET, HEAD",
	} {
		for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "PURGE", "POST"} {
			if strings.Contains(allow, method) {
				continue
			}
			r := w.send(call{Method: method, Path: path, Header: http.Header{"Authorization": nil}})
			r.want(http.StatusMethodNotAllowed, "method-not-allowed", "fix")
			if r.header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow is %q", method, path, r.header.Get("Allow"))
			}
		}
	}
}

// TestHead answers as GET does, without the body.
func TestHead(t *testing.T) {
	w := newWorld(t, setup{})
	p := w.send(pay("K", body1)).want(http.StatusCreated)
	for _, path := range []string{"/payments", "/payments/" + p.ID, "/healthz", "/openapi.yaml", "/payments/x"} {
		g, h := w.send(get(path)), w.send(call{Method: "HEAD", Path: path})
		if h.status != g.status || len(h.body) != 0 || h.header.Get("Content-Length") != g.header.Get("Content-Length") ||
			h.header.Get("Content-Type") != g.header.Get("Content-Type") {
			t.Errorf("%s: GET %d %v, HEAD %d %v", path, g.status, g.header, h.status, h.header)
		}
	}
	w.send(call{Method: "HEAD", Path: "/payments", APIKey: "wrong"}).wantStatus(http.StatusUnauthorized)
}

// TestHostNames: while the API key is well known, a name that somebody else
// may have pointed at us is not served (DNS rebinding).
func TestHostNames(t *testing.T) {
	w := newWorld(t, setup{server: server.Options{WellKnownKeys: true}})
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(w.url, "http://"))
	for _, host := range []string{
		"localhost", "localhost:" + port, "LocalHost:8017", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8017",
	} {
		w.send(get("/payments").with("Host", host)).wantStatus(http.StatusOK)
	}
	for _, host := range []string{
		"evil.example", "evil.example:" + port, "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.2", "0.0.0.0",
		"localhost.", "[::2]", "10.0.0.1:8017", "localhost:8017:1",
	} {
		for _, c := range []call{get("/payments"), get("/healthz"), get("/nothing"), pay("K", body1)} {
			w.send(c.with("Host", host)).want(http.StatusMisdirectedRequest, "misdirected", "fix")
		}
	}
	w.wantMoved()
	open := newWorld(t, setup{})
	open.send(get("/payments").with("Host", "pay.example")).wantStatus(http.StatusOK)
}

// TestLedger is served as the sandbox gives it, without sign-in.
func TestLedger(t *testing.T) {
	var w *world
	w = newWorld(t, setup{server: server.Options{Ledger: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		resp, err := http.Get(w.ledgerAt)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		rw.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		_, _ = io.Copy(rw, resp.Body)
	})}})
	w.send(pay("K", body1)).want(http.StatusCreated)
	c := get("/sandbox/ledger")
	c.Header = http.Header{"Authorization": nil}
	r := w.send(c)
	r.wantStatus(http.StatusOK)
	if !strings.Contains(string(r.body), `"charge"`) {
		t.Errorf("the ledger is %s", r.body)
	}
	w.send(call{Method: "POST", Path: "/sandbox/ledger"}).want(http.StatusMethodNotAllowed, "method-not-allowed", "fix")
}

// line is one of the access log.
type line struct {
	Msg, Method, Path, Account, Key, Request, Original string
	Status                                             int
	Replayed                                           bool
	Took                                               *int64
}

// TestAccessLog: one line for each request, which says whose and which it was
// and nothing that is secret.
func TestAccessLog(t *testing.T) {
	w := newWorld(t, setup{})
	first := w.send(pay(`k"1`, bodyWith("tok_visa_4242", `"orderId":"order-77"`)))
	first.want(http.StatusCreated)
	again := w.send(pay(`k"1`, bodyWith("tok_visa_4242", `"orderId":"order-77"`)))
	again.wantReplayOf(first)
	w.send(call{Method: "GET", Path: "/payments?orderId=order-77", APIKey: "oo_test_stolen"})
	w.send(get("/nothing%0Ahere"))
	var lines []line
	// The line is written once the answer is out.
	until(t, func() bool {
		lines = nil
		for text := range strings.Lines(w.log.String()) {
			var l line
			if json.Unmarshal([]byte(text), &l); l.Msg == "request" {
				lines = append(lines, l)
			}
		}
		return len(lines) == 4
	})
	slices.SortStableFunc(lines, func(a, b line) int { return compare(a.Original, b.Original) })
	for _, l := range lines {
		if l.Took == nil || *l.Took < 0 || l.Request == "" {
			t.Errorf("the line is %+v", l)
		}
	}
	paid, missing, replay := lines[0], lines[2], lines[3]
	if paid.Method != "POST" || paid.Path != "/payments" || paid.Status != 201 || paid.Account != "A" ||
		paid.Key != `"k\"1"` || paid.Request != first.header.Get("Request-Id") || paid.Replayed {
		t.Errorf("the line is %+v", paid)
	}
	if !replay.Replayed || replay.Original != paid.Request || replay.Request != again.header.Get("Request-Id") {
		t.Errorf("the line is %+v", replay)
	}
	if lines[1].Status != 401 || lines[1].Account != "" || missing.Status != 404 || missing.Path != "/nothing%0Ahere" {
		t.Errorf("the lines are %+v, %+v", lines[1], missing)
	}
	for _, secret := range []string{"tok_visa_4242", "order-77", keyA, "oo_test_stolen", "Bearer"} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("%q stands in the log", secret)
		}
	}
}

// TestSlowClient: a body that does not come is cut off, and spends no key.
func TestSlowClient(t *testing.T) {
	w := newWorld(t, setup{})
	w.server.SetBodyTimeout(100 * time.Millisecond)
	at := must(url.Parse(w.url))(t)
	conn := must(net.Dial("tcp", at.Host))(t)
	defer conn.Close()
	_, err := fmt.Fprintf(conn, "POST /payments HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Idempotency-Key: K\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		at.Host, keyA, len(body1), body1[:10])
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	resp := must(http.ReadResponse(reader, nil))(t)
	body := must(io.ReadAll(resp.Body))(t)
	reply{t, resp.StatusCode, resp.Header, body}.want(http.StatusBadRequest, "invalid-request", "fix")
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("the connection is still open: %v", err)
	}
	if r := w.send(pay("K", body1)); r.want(http.StatusCreated).ID == "" || r.replayed() {
		t.Error("the key was spent")
	}
}

// TestServerLimits: every phase of a connection has a limit, and none of them
// cuts off a request that waits as long as it may.
func TestServerLimits(t *testing.T) {
	w := newWorld(t, setup{server: server.Options{Lease: time.Minute}})
	s := w.server.HTTP("127.0.0.1:0")
	longest := 30*time.Second + 2*time.Minute
	if s.Addr != "127.0.0.1:0" || s.Handler == nil || s.ReadHeaderTimeout <= 0 || s.ReadHeaderTimeout > time.Minute ||
		s.ReadTimeout < longest || s.WriteTimeout < s.ReadTimeout || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("the limits are %+v", s)
	}
	c := get("/payments").with("X-Padding", strings.Repeat("x", 64<<10))
	resp := must(client.Do(must(c.request(t.Context(), w.url))(t)))(t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("large headers: %d", resp.StatusCode)
	}
}

// TestNew refuses what can't serve.
func TestNew(t *testing.T) {
	w := newWorld(t, setup{})
	good := server.Options{DB: w.db, Store: w.store, Flow: w.flow}
	must(server.New(good))(t)
	for name, o := range map[string]server.Options{
		"nothing": {}, "no DB": {Store: good.Store, Flow: good.Flow}, "no store": {DB: good.DB, Flow: good.Flow},
		"no flow":   {DB: good.DB, Store: good.Store},
		"max body":  {DB: good.DB, Store: good.Store, Flow: good.Flow, MaxBody: -1},
		"the lease": {DB: good.DB, Store: good.Store, Flow: good.Flow, Lease: -1},
	} {
		if _, err := server.New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
