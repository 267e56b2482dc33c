package storetest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// verb runs a line's verb and returns its result in words.
func (p *player) verb(ctx context.Context, tx onlyonce.Tx, w *session, l line) string {
	got, err := p.act(ctx, tx, w, l)
	if err != nil {
		return "error: " + err.Error()
	}
	return got
}

func (p *player) act(ctx context.Context, tx onlyonce.Tx, w *session, l line) (string, error) {
	switch l.verb {
	case "request", "look":
		return p.ask(ctx, tx, w, l)
	case "due":
		return p.due(ctx, tx, l)
	}
	c, err := p.claimOf(w, l)
	if err != nil {
		return "", err
	}
	store, claims := p.s.Store, []onlyonce.Claim{c}
	switch l.verb {
	case "claim":
		recs, err := store.Claim(ctx, tx, claims)
		return describeOwn(recs, w.name), err
	case "takeover":
		recs, err := store.Load(ctx, tx, []onlyonce.Key{c.Key}, true)
		if err != nil {
			return "", err
		}
		claims[0].Attempt = recs[0].Attempt
		recs, err = store.TakeOver(ctx, tx, claims)
		return describeOwn(recs, w.name), err
	case "load":
		recs, err := store.Load(ctx, tx, []onlyonce.Key{c.Key}, false)
		return describeOwn(recs, ""), err
	case "advance":
		return okOrFenced(store.Advance(ctx, tx, claims))
	case "release":
		return okOrFenced(store.Release(ctx, tx, claims))
	case "finish":
		o, keep, err := outcomeOf(l)
		if err != nil {
			return "", err
		}
		return okOrFenced(store.Finish(ctx, tx, claims, []onlyonce.Outcome{o}, keep))
	case "reap":
		tombstones, err := option(l, "tombstones", 24*time.Hour)
		if err != nil {
			return "", err
		}
		n, err := store.Reap(ctx, tx, []onlyonce.Key{c.Key}, tombstones)
		return fmt.Sprintf("%d rows", n), err
	}
	return "", fmt.Errorf("there is no verb %q", l.verb)
}

// claimOf makes the claim that a line speaks of.
func (p *player) claimOf(w *session, l line) (onlyonce.Claim, error) {
	if len(l.args) == 0 {
		return onlyonce.Claim{}, fmt.Errorf("%s needs a key", l.verb)
	}
	lease, err := option(l, "lease", 30*time.Second)
	if err != nil {
		return onlyonce.Claim{}, err
	}
	c := claim(l.args[0], w.name)
	c.Intent = intentOf(l)
	c.Lease = lease
	c.Resource = l.options["resource"]
	if point := l.options["point"]; point != "" {
		c.Point = onlyonce.Point(point)
	}
	return c, nil
}

func intentOf(l line) onlyonce.Intent {
	in := intent(l.args[0], "body")
	if body, ok := l.options["body"]; ok {
		in.Fingerprint = onlyonce.NewFingerprint([]byte(body))
	}
	if op, ok := l.options["operation"]; ok {
		in.Operation = op
	}
	if acct, ok := l.options["account"]; ok {
		in.Key.Account = acct
	}
	return in
}

func outcomeOf(l line) (o onlyonce.Outcome, keep time.Duration, err error) {
	if len(l.args) != 3 {
		return o, 0, errors.New("finish needs a key, a status and a body")
	}
	if o.Status, err = strconv.Atoi(l.args[1]); err != nil {
		return o, 0, err
	}
	body, err := strconv.Unquote(l.args[2])
	if err != nil {
		return o, 0, fmt.Errorf("the body %s: %w", l.args[2], err)
	}
	o.Body = []byte(body)
	keep, err = option(l, "keep", 24*time.Hour)
	return o, keep, err
}

func option(l line, name string, otherwise time.Duration) (time.Duration, error) {
	text, ok := l.options[name]
	if !ok {
		return otherwise, nil
	}
	return time.ParseDuration(text)
}

func (p *player) due(ctx context.Context, tx onlyonce.Tx, l line) (string, error) {
	recs, err := p.s.Store.Due(ctx, tx, onlyonce.Status(l.args[0]), 10)
	if err != nil {
		return "", err
	}
	words := []string{"none"}
	for i, rec := range recs {
		words = append(words[:i], rec.Key.Name)
	}
	return strings.Join(words, " "), nil
}

// ask runs a verb of the engine. The session's name is its owner token.
func (p *player) ask(ctx context.Context, tx onlyonce.Tx, w *session, l line) (string, error) {
	once, err := onlyonce.New(onlyonce.Options{
		Store: p.s.Store, Retention: 24 * time.Hour, Tombstones: 24 * time.Hour,
		NewToken: func() onlyonce.Token { return w.name },
	})
	if err != nil {
		return "", err
	}
	decide := once.Begin
	if l.verb == "look" {
		decide = once.Look
	}
	d, err := decide(ctx, tx, intentOf(l))
	resource := " resource=" + d.Record.Resource
	switch {
	case errors.Is(err, onlyonce.ErrMismatch):
		return "mismatch", nil
	case errors.Is(err, onlyonce.ErrInFlight):
		return "in-flight" + resource, nil
	case errors.Is(err, onlyonce.ErrUnknown):
		return "unknown" + resource, nil
	case errors.Is(err, onlyonce.ErrExpired):
		return "expired" + resource, nil
	case err != nil:
		return "", err
	case d.Outcome != nil:
		return fmt.Sprintf("replay %d %q%s", d.Outcome.Status, d.Outcome.Body, resource), nil
	case d.Claim != nil:
		return fmt.Sprintf("claimed attempt=%d point=%s resource=%s", d.Claim.Attempt, d.Claim.Point, d.Claim.Resource), nil
	}
	return "free", nil
}

func okOrFenced(hit []bool, err error) (string, error) {
	switch {
	case err != nil:
		return "", err
	case len(hit) != 1:
		return "", fmt.Errorf("one claim, %d answers", len(hit))
	case hit[0]:
		return "ok", nil
	}
	return "fenced", nil
}

// describeOwn puts a row into words; one that own holds was won.
func describeOwn(recs []onlyonce.Record, own onlyonce.Token) string {
	if len(recs) != 1 {
		return fmt.Sprintf("error: %d rows", len(recs))
	}
	rec := recs[0]
	row := fmt.Sprintf("owner=%s attempt=%d point=%s resource=%s", rec.Owner, rec.Attempt, rec.Point, rec.Resource)
	switch {
	case rec.Status == "":
		return "absent"
	case rec.Status == onlyonce.Completed && rec.Outcome == nil:
		return "error: completed without an outcome"
	case rec.Status == onlyonce.Completed:
		return fmt.Sprintf("completed %d %q %s", rec.Outcome.Status, rec.Outcome.Body, row)
	case rec.Outcome != nil:
		return "error: an outcome in status " + string(rec.Status)
	case rec.Status == onlyonce.Tombstone:
		return "tombstone " + row
	case rec.Owner == own:
		return "won " + row
	case rec.Lapsed():
		return "lapsed " + row
	}
	return "running " + row
}
