package sqlstore_test

import (
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/storetest"
)

// TestConformance holds every engine to the contract.
func TestConformance(t *testing.T) {
	engines.Each(t, func(t *testing.T, e engines.Engine) {
		for _, v := range variants(e) {
			t.Run(v.name, func(t *testing.T) { storetest.Run(t, harness(t, e, v)) })
		}
	})
}

// variants are the ways to use an engine that every run plays. On MySQL the
// number of rows that a statement reports means another thing with
// clientFoundRows (case 40).
func variants(e engines.Engine) []variant {
	if e.Dialect == "mysql" {
		return []variant{{name: "changed rows"}, {name: "found rows", parameters: "clientFoundRows=true", keys: 1000}}
	}
	return []variant{{name: "defaults"}}
}
