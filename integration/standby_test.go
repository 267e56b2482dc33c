package integration_test

import (
	"net/http"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
)

// An outcome that can be read on the primary, and that no standby has, could be
// taken back by a failover. While COMMIT waits for a standby that is not there
// a replay is told 202 and no success; once nobody waits for it any more the
// outcome is given out again.
func TestReplayWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	for _, e := range engines.Named(t, engines.Postgres15) {
		own := startOwn(t, e)
		admin, err := engines.Open(own.server.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer admin.Close()
		waitFor := func(standby string) {
			for _, text := range []string{"ALTER SYSTEM SET synchronous_standby_names = '" + standby + "'",
				"SELECT pg_reload_conf()"} {
				if _, err := admin.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
			// A session reads the new value when it has nothing else to do.
			eventually(t, patience, "the setting", func() bool {
				var now string
				err := admin.QueryRow("SHOW synchronous_standby_names").Scan(&now)
				return err == nil && now == standby
			})
		}
		h := own.house(e)
		s := h.serve()
		r := payment("k-standby", "42", "tok_ok")
		first := s.must(r)
		first.is(t, http.StatusCreated, "")
		waitFor("nobody")
		eventually(t, patience, "a replay that waits", func() bool { return s.must(r).status == http.StatusAccepted })
		s.must(r).checkOpen(t)
		waitFor("")
		s.final(r, patience).checkReplay(t, first)
		h.moved("charge 2500")
	}
}
