package flow_test

import (
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// TestNewRefusesWhatCouldLoseMoney: the message names the setting.
func TestNewRefusesWhatCouldLoseMoney(t *testing.T) { onSome(t, testNewRefusesWhatCouldLoseMoney) }

func testNewRefusesWhatCouldLoseMoney(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	for _, c := range []struct {
		change func(*flow.Options)
		want   string // in the error; empty: none
	}{
		{func(*flow.Options) {}, ""},
		{func(o *flow.Options) { o.KeyWindow = 24 * time.Hour }, ""},
		{func(o *flow.Options) { o.KeyWindow = 24*time.Hour + 1 }, "--provider-key-window"},
		{func(o *flow.Options) { o.ProviderTimeout = 20 * time.Second }, "--provider-timeout"},
		{func(o *flow.Options) { o.CommitWait = 20 * time.Second }, "--lease"},
		{func(o *flow.Options) { o.Render = nil }, "Render"},
		{func(o *flow.Options) { o.Installation = "" }, "Installation"},
	} {
		o := flow.Options{DB: w.db, Engine: w.engine, Provider: w.fake, Render: render, Installation: "i"}
		c.change(&o)
		_, err := flow.New(o)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q in the error, got %v", c.want, err)
		}
	}
}

// TestSettledIsTold: whoever waits for a key hears of every change.
func TestSettledIsTold(t *testing.T) { onSome(t, testSettledIsTold) }

func testSettledIsTold(t *testing.T, b *bed) {
	told := map[string]int{}
	w := b.world(t, setup{flow: flow.Options{Settled: func(k onlyonce.Key) { told[k.Name]++ }}})
	w.paid("k", "order")
	_, err := w.payOrder("busy", "order")
	must(t, err)
	w.fake.script(maybe)
	w.unknown("unknown")
	w.finish("unknown", nil)
	if told["k"] != 1 || told["busy"] != 1 || told["unknown"] != 2 {
		t.Errorf("told: %v", told)
	}
}
