package flow_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/flow"
)

// spoken is where a resolver's log lines go to, one by one.
type spoken chan string

func (s spoken) Write(p []byte) (int, error) {
	s <- string(p)
	return len(p), nil
}

// A server that meets unfinished work of another provider can't finish it, and
// says so: at once, and after an hour again.
func TestWorkAtAnotherProviderIsNamed(t *testing.T) { onSome(t, testWorkAtAnotherProviderIsNamed) }

func testWorkAtAnotherProviderIsNamed(t *testing.T, b *bed) {
	w := b.world(t, setup{})
	w.always(maybe, maybe)
	foreign := w.unknown("theirs")
	w.exec("UPDATE dispatches SET provider_instance = 'fake:2' WHERE resource_id = ?", foreign)
	looks := make(chan struct{}, 16)
	w.fake.before = func(string, payments.Dispatch) { looks <- struct{}{} }
	ctx, stop := context.WithCancel(t.Context())
	said, ended := make(spoken, 16), make(chan error)
	r := &flow.Resolver{Flow: w.flow, Every: time.Millisecond, Log: slog.New(slog.NewTextHandler(said, nil))}
	go func() { ended <- r.Run(ctx) }()
	warned := func() {
		t.Helper()
		line := <-said
		if !strings.Contains(line, "level=WARN") || !strings.Contains(line, "provider=fake:2 unfinished=1 reaches=fake:1") {
			t.Error(line)
		}
	}
	warned()
	w.clock.advance(59 * time.Minute)
	w.unknown("ours")
	<-looks // the client's own
	w.clock.advance(30 * time.Second)
	<-looks // the resolver has gone round
	if len(said) > 0 {
		t.Errorf("within the hour: %s", <-said)
	}
	w.clock.advance(time.Minute)
	warned()
	stop()
	if err := <-ended; err != nil || len(said) > 0 {
		t.Errorf("%v, %d more lines", err, len(said))
	}
}
