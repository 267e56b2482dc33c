package integration_test

import (
	"fmt"
	"net/http"
	"testing"
)

// Case 58: the client hangs up while its payment runs. That changes nothing.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve(unhurried()...)
	g := newGate()
	h.proxy.does(func(p *passage) {
		p.hold(g)
		p.pass()
	})
	r := payment("k-gone", "42", "tok_ok")
	conn := s.raw(r)
	g.wait(t)
	reset(conn)
	s.must(r).is(t, http.StatusConflict, "in-flight")
	g.open()
	h.db.finished(r.key)
	got := s.must(r)
	got.is(t, http.StatusCreated, "")
	if !got.replayed() {
		t.Error("the retry ran instead of getting the outcome")
	}
	h.moved("charge 2500")
	h.checkSends(r.key)
	if n := h.proxy.arrived(); n != 1 {
		t.Errorf("the provider was sent %d requests", n)
	}
}

// The same at no particular moment: each request is followed by a reset at
// once, and whatever of it arrived, the retry ends in one charge.
func TestClientsHangUpAtOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve()
	var want []string
	for i := range 20 {
		reset(s.raw(paymentOf(fmt.Sprintf("k-%d", i), "", "tok_ok", 100+i)))
		want = append(want, fmt.Sprintf("charge %d", 100+i))
	}
	for i := range 20 {
		s.final(paymentOf(fmt.Sprintf("k-%d", i), "", "tok_ok", 100+i), patience).is(t, http.StatusCreated, "")
	}
	h.moved(want...)
}

// Case 93: an ingress sends a POST again by itself while the first one runs.
// The second is told to wait, or waits; there is one debit.
func TestResentByAnIngress(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve(unhurried()...)
	g := newGate()
	h.proxy.does(func(p *passage) {
		p.hold(g)
		p.pass()
	})
	r := payment("k-twice", "42", "tok_ok")
	first := s.sent(r)
	g.wait(t)
	again := s.must(r)
	again.is(t, http.StatusConflict, "in-flight")
	again.checkOpen(t)
	patient := r
	patient.header = [2]string{"Prefer", "wait=20"}
	waiting := s.sent(patient)
	g.open()
	got, waited := <-first, <-waiting
	got.is(t, http.StatusCreated, "")
	waited.checkReplay(t, got)
	if applied := waited.header.Get("Preference-Applied"); applied != "wait=20" {
		t.Errorf("Preference-Applied is %q", applied)
	}
	if n := h.proxy.arrived(); n != 1 {
		t.Errorf("the provider was sent %d requests", n)
	}
	h.moved("charge 2500")
}

// The other half of case 93: Go's transport re-sends a POST that carries an
// Idempotency-Key when a kept-alive connection breaks. Ours does not: each send
// is an attempt that the database knows of.
func TestNoSendIsHidden(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve()
	s.must(payment("k-first", "", "tok_ok")).is(t, http.StatusCreated, "") // leaves a connection behind
	h.proxy.does(func(p *passage) {
		p.forward()
		p.cut()
	})
	r := payment("k-cut", "", "tok_ok")
	s.must(r).is(t, http.StatusAccepted, "")
	h.checkSends(r.key)
	h.proxy.passes()
	s.final(r, slack).is(t, http.StatusCreated, "")
	h.checkSends(r.key)
	h.moved("charge 2500", "charge 2500")
}

// Case 83: the provider needs 3 s, and the user presses the button thrice.
func TestSlowProviderAndAnImpatientUser(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	s := h.serve(unhurried()...)
	r := payment("k-thrice", "42", "tok_slow")
	ran := 0
	for _, got := range together(t, []server{s}, repeated(r, 3)) {
		if got.status == http.StatusCreated {
			ran++
			continue
		}
		got.is(t, http.StatusConflict, "in-flight")
	}
	got := s.final(r, patience)
	got.is(t, http.StatusCreated, "")
	if ran != 1 {
		t.Errorf("%d of three requests ran", ran)
	}
	h.moved("charge 2500")
	credits := h.db.one(`SELECT count(*) FROM events WHERE type = 'completed'`)
	if credits != "1" {
		t.Errorf("the payment was completed %s times", credits)
	}
}
