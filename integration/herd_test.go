package integration_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// together sends all requests at one moment, the i-th to one of the servers in
// turn, and returns the answers in order.
func together(t *testing.T, servers []server, requests []request) []reply {
	t.Helper()
	replies := make([]reply, len(requests))
	errs := make([]error, len(requests))
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i, r := range requests {
		wg.Go(func() {
			<-start
			replies[i], errs[i] = servers[i%len(servers)].send(r)
		})
	}
	close(start)
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
	}
	return replies
}

func repeated(r request, n int) []request { return slices.Repeat([]request{r}, n) }

// Cases 30 and 32: of 50 identical requests one runs; the others are told that
// it runs, or what came of it.
func TestHerdOfOneIntent(t *testing.T) {
	t.Parallel()
	grounds(t, testHerdOfOneIntent)
}

func testHerdOfOneIntent(t *testing.T, e engines.Engine) {
	for _, servers := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d servers", servers), func(t *testing.T) {
			t.Parallel()
			h := newHouseOn(t, e)
			var all []server
			for range servers {
				all = append(all, h.serve(unhurried()...))
			}
			r := payment("k-herd", "42", "tok_ok")
			var won []reply
			for _, got := range together(t, all, repeated(r, 50)) {
				switch {
				case got.status == http.StatusCreated:
					won = append(won, got)
				case got.open() && got.status < 500:
					got.checkOpen(t)
				default:
					t.Errorf("one of the herd got %d: %s", got.status, got.body)
				}
			}
			last := all[0].final(r, patience)
			firsts := 0
			for _, got := range won {
				if !bytes.Equal(got.body, last.body) {
					t.Errorf("two answers differ:\n%s\n%s", got.body, last.body)
				}
				if !got.replayed() {
					firsts++
				}
			}
			if firsts > 1 {
				t.Errorf("%d requests say that they ran", firsts)
			}
			h.moved("charge 2500")
			if n := h.proxy.arrived(); n != 1 {
				t.Errorf("%d requests reached the provider, want 1", n)
			}
		})
	}
}

// One order is paid once, however many keys ask for it.
func TestHerdOfKeysForOneOrder(t *testing.T) {
	t.Parallel()
	grounds(t, testHerdOfKeysForOneOrder)
}

func testHerdOfKeysForOneOrder(t *testing.T, e engines.Engine) {
	h := newHouseOn(t, e)
	all := []server{h.serve(unhurried()...), h.serve(unhurried()...)}
	var requests []request
	for i := range 20 {
		requests = append(requests, payment(fmt.Sprintf("k-%d", i), "42", "tok_ok"))
	}
	paid, busy := "", 0
	for i, got := range together(t, all, requests) {
		if got.status == http.StatusAccepted { // a slow machine: nothing is lost
			got = all[0].final(requests[i], patience)
		}
		switch {
		case got.status == http.StatusCreated && paid == "":
			paid = got.object(t)["id"].(string)
		default:
			got.is(t, http.StatusConflict, "order-busy")
			busy++
		}
	}
	if paid == "" || busy != 19 {
		t.Errorf("payment %q, and %d were busy, want 19", paid, busy)
	}
	if n := h.db.count("payments"); n != 1 {
		t.Errorf("there are %d payments", n)
	}
	h.moved("charge 2500")
}

// Case 98a: two refunds of 60 on 100 at once.
func TestTwoRefundsAtOnce(t *testing.T) {
	t.Parallel()
	grounds(t, testTwoRefundsAtOnce)
}

func testTwoRefundsAtOnce(t *testing.T, e engines.Engine) {
	h := newHouseOn(t, e)
	all := []server{h.serve(unhurried()...), h.serve(unhurried()...)}
	paid := all[0].final(paymentOf("k-pay", "", "tok_ok", 100), patience).object(t)
	id := paid["id"].(string)
	requests := []request{refund(id, "k-a", 60), refund(id, "k-b", 60)}
	created, over := 0, 0
	for i, got := range together(t, all, requests) {
		if got.open() { // its room hangs on the other one
			got = all[i].final(requests[i], patience)
		}
		switch got.status {
		case http.StatusCreated:
			created++
		default:
			got.is(t, http.StatusUnprocessableEntity, "over-refund")
			if got.object(t)["refundable"] != 40.0 {
				t.Errorf("over-refund tells of %v, want 40", got.object(t)["refundable"])
			}
			over++
		}
	}
	if created != 1 || over != 1 {
		t.Errorf("%d refunds were made, %d were too much", created, over)
	}
	h.moved("charge 100", "refund 60")
	if p := all[0].get("/payments/" + id); p["refunded"] != 60.0 || p["refundable"] != 40.0 {
		t.Errorf("the payment shows refunded %v, refundable %v", p["refunded"], p["refundable"])
	}
}
