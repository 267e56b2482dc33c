package flow_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
)

// fake is a small provider: a ledger by key, which absorbs a repeated key
// inside its window and charges again after it, and answers that the test
// writes down beforehand.
type fake struct {
	t     testing.TB
	clock *clock
	facts payments.Facts
	// before is called at the beginning of each call, as the provider's first byte.
	before func(op string, d payments.Dispatch)
	// decide, if set, answers instead of the replies. It may be called concurrently.
	decide func(op string, d payments.Dispatch) (reply, bool)

	mu      sync.Mutex
	replies []reply
	calls   []call
	ledger  map[string][]entry
}

// reply is one answer, and whether the effect took place before it was given.
type reply struct {
	kind     payments.AnswerKind
	acts     bool
	withID   bool // it tells the object's id
	code     string
	panicked bool
}

type call struct {
	op     string // execute, read or find
	d      payments.Dispatch
	sendBy time.Time
	at     time.Time
}

type entry struct {
	id, resource, body string
	amount             int64
	kind               payments.Kind
	at                 time.Time
}

func newFake(t testing.TB, c *clock) *fake {
	return &fake{t: t, clock: c, facts: payments.Facts{KeyWindow: 24 * time.Hour, AbsenceGrace: 24 * time.Hour},
		ledger: map[string][]entry{}}
}

func (f *fake) Instance() string { return "fake:1" }

func (f *fake) Facts() payments.Facts { return f.facts }

func (f *fake) Prepare(_ context.Context, in payments.Instruction) (payments.Request, error) {
	if in.Amount.Currency == "KWD" {
		return payments.Request{}, fmt.Errorf("no %s here", in.Amount.Currency)
	}
	return payments.Request{Body: fmt.Appendf(nil, "%+v", in), Version: "v1"}, nil
}

func (f *fake) Execute(_ context.Context, d payments.Dispatch, sendBy time.Time) payments.Answer {
	f.begin("execute", d, sendBy)
	r := f.next("execute", d)
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.clock.now().Before(sendBy) {
		return payments.Answer{Kind: payments.AnswerNotSent, Detail: "too late to send"}
	}
	if r.acts {
		f.act(d)
	}
	if r.panicked {
		panic("the adapter broke")
	}
	return f.answer(r, f.ledger[d.ProviderKey])
}

func (f *fake) Read(_ context.Context, d payments.Dispatch) payments.Answer {
	return f.look("read", d, func(e entry) bool { return e.id == d.ProviderID })
}

func (f *fake) Find(_ context.Context, d payments.Dispatch) payments.Answer {
	return f.look("find", d, func(e entry) bool { return e.resource == d.Resource })
}

func (f *fake) look(op string, d payments.Dispatch, is func(entry) bool) payments.Answer {
	f.begin(op, d, time.Time{})
	r := f.next(op, d)
	f.mu.Lock()
	defer f.mu.Unlock()
	found := slices.DeleteFunc(slices.Concat(f.entries()...), func(e entry) bool { return !is(e) })
	if r.panicked {
		panic("the adapter broke")
	}
	if r.kind == payments.AnswerSucceeded && len(found) == 0 {
		r = reply{kind: payments.AnswerNotFound}
	}
	return f.answer(r, found)
}

func (f *fake) begin(op string, d payments.Dispatch, sendBy time.Time) {
	d.Request.Body = slices.Clone(d.Request.Body)
	f.mu.Lock()
	f.calls = append(f.calls, call{op, d, sendBy, f.clock.now()})
	f.mu.Unlock()
	if f.before != nil {
		f.before(op, d)
	}
}

// next is the reply for this call: success unless the test wants another.
func (f *fake) next(op string, d payments.Dispatch) reply {
	if f.decide != nil {
		if r, ok := f.decide(op, d); ok {
			return r
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.replies) == 0 {
		return reply{kind: payments.AnswerSucceeded, acts: true, withID: true}
	}
	r := f.replies[0]
	f.replies = f.replies[1:]
	return r
}

func (f *fake) answer(r reply, found []entry) payments.Answer {
	a := payments.Answer{Kind: r.kind, Code: r.code}
	if r.withID && len(found) > 0 {
		a.ProviderID = found[0].id
	}
	return a
}

// act moves money, once per key as long as the key is remembered.
func (f *fake) act(d payments.Dispatch) {
	known := f.ledger[d.ProviderKey]
	now := f.clock.now()
	if len(known) > 0 && now.Sub(known[0].at) < f.facts.KeyWindow {
		if known[0].body != string(d.Request.Body) {
			f.t.Errorf("other bytes under one provider key:\n%s\n%s", known[0].body, d.Request.Body)
		}
		return
	}
	f.ledger[d.ProviderKey] = append(known, entry{
		id: fmt.Sprintf("obj_%d_%s", len(known), d.Resource), resource: d.Resource, body: string(d.Request.Body),
		amount: d.Amount.Minor, kind: d.Kind, at: now,
	})
}

func (f *fake) entries() (all [][]entry) {
	for _, list := range f.ledger {
		all = append(all, list)
	}
	return all
}

// script sets the next replies, in order.
func (f *fake) script(replies ...reply) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.replies = replies
}

// made lists what moved for a resource, "" for all.
func (f *fake) made(resource string) []entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Concat(f.entries()...), func(e entry) bool {
		return resource != "" && e.resource != resource
	})
}

// seen lists the calls of one kind, "" for all.
func (f *fake) seen(op string) []call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.calls), func(c call) bool { return op != "" && c.op != op })
}
