package integration_test

import (
	"net/http"
	"testing"
)

// The synchronous standby freezes between the provider's answer and the COMMIT
// that stores it. The client is told unknown after the commit wait, and so is
// who comes anew, for whom nothing is sent. The primary is killed and the
// standby promoted: what was acknowledged is there, and what was not is found
// out, with one charge.
func TestClusterPostgresStandbyIsFrozen(t *testing.T) {
	onCluster(t)
	h, pair := newPairHouse(t)
	s := h.serve()
	early := payment("k-early", "1", "tok_ok")
	kept := s.must(early)
	kept.is(t, http.StatusCreated, "")

	g := newGate()
	h.proxy.does(func(p *passage) {
		got := p.forward()
		p.delay(g)
		p.answer(got)
	})
	r := payment("k-hung", "2", "tok_ok")
	answer := s.sent(r)
	g.wait(t)
	pair.FreezeStandby()
	g.open()
	hung := <-answer
	hung.is(t, http.StatusAccepted, "")
	hung.checkOpen(t)
	late := payment("k-late", "3", "tok_ok")
	s.must(late).is(t, http.StatusAccepted, "")
	if n := h.proxy.arrived(); n != 2 {
		t.Errorf("the provider was asked %d times, want the 2 before the standby froze", n)
	}

	pair.KillPrimary()
	pair.Promote()
	h.lookAt(pair)
	s.final(early, patience).checkReplay(t, kept)
	for _, again := range []request{r, late} {
		s.final(again, patience).is(t, http.StatusCreated, "")
	}
	h.moved("charge 2500", "charge 2500", "charge 2500")
	h.checkClaims()
}
