package httponce_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/httponce"
)

func TestWait(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  int
	}{
		{nil, 0},
		{[]string{"wait=10"}, 10},
		{[]string{"WAIT = 10 "}, 10},
		{[]string{`wait="7"`}, 7},
		{[]string{"respond-async, wait=5; foo=bar"}, 5},
		{[]string{"respond-async", "wait=5"}, 5},
		{[]string{"wait=5, wait=9"}, 5},
		{[]string{"wait=5", "wait=9"}, 5},
		{[]string{"wait=x, wait=9"}, 9},
		{[]string{`note="a, wait=9", wait=4`}, 4},
		{[]string{`note="a\", wait=9", wait=4`}, 4},
		{[]string{`note="never closed, wait=9`}, 0},
		{[]string{"wait=31"}, 30},
		{[]string{"wait=99999999999999999999999"}, 30},
		{[]string{"wait=0"}, 0},
		{[]string{"wait=-5"}, 0},
		{[]string{"wait=1.5"}, 0},
		{[]string{"wait=+5"}, 0},
		{[]string{"wait"}, 0},
		{[]string{"wait="}, 0},
		{[]string{"waits=5, await=5"}, 0},
		{[]string{",,;=,=;"}, 0},
	} {
		d, ok := httponce.Wait(http.Header{"Prefer": c.lines})
		if d != time.Duration(c.want)*time.Second || ok != (c.want > 0) {
			t.Errorf("%q: got %v, %v; want %d s", c.lines, d, ok, c.want)
		}
	}
	if got := httponce.Applied(30 * time.Second); got != "wait=30" {
		t.Error(got)
	}
}
