package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/onlyonce-go/onlyonce"
)

// act is one failure and its recovery.
type act struct {
	title string
	why   string
	play  func(ctx context.Context, d *demo) error
}

const (
	patience    = 30 * time.Second // for anything that the server does by itself
	maxRetries  = 40               // of one intent; a real client would give up later
	waitPrefer  = 20 * time.Second // "Prefer: wait"
	otherAmount = 9900
	// retryAtMost keeps the demo lively: a client may retry earlier than it
	// was asked to, and is answered truthfully.
	retryAtMost = time.Second
)

// acts is the whole play, in order.
func acts() []act {
	return []act{
		{"The first request", "the key's row exists before the charge, the response with it after", firstRequest},
		{"The answer is lost", "the client hangs up, and sends the same again", lostAnswer},
		{"A retry while the first still runs", "it is told to wait, or waits, and never runs twice", inFlight},
		{"kill -9 between charge and stored answer", "the claim outlives the process", killed},
		{"The same key with another body", "a key never answers for another request", otherBody},
		{"The same key from another account", "keys are scoped by account", otherAccount},
		{"The provider charges and never answers", "unknown stays unknown until there is proof", neverAnswers},
	}
}

// add begins an intent.
func (d *demo) add(in *intent) *intent {
	d.played = append(d.played, in)
	return in
}

// ask sends the intent once more and tells the answer.
func (d *demo) ask(ctx context.Context, in *intent, wait time.Duration) (reply, error) {
	return d.askFor(ctx, in, demoAmount, wait)
}

func (d *demo) askFor(ctx context.Context, in *intent, amount int, wait time.Duration) (reply, error) {
	d.sayAsked(in, amount, wait)
	r, err := d.client.pay(ctx, in, in.bodyOf(amount), wait)
	if err != nil {
		return r, err
	}
	d.sayAnswer("answer", in, r)
	return r, nil
}

func (d *demo) sayAsked(in *intent, amount int, wait time.Duration) {
	price := fmt.Sprintf("%d.%02d USD", amount/100, amount%100)
	detail := fmt.Sprintf("key %s, %s, %s", in.key, price, in.token)
	switch {
	case wait > 0:
		detail = fmt.Sprintf("%s again, Prefer: wait=%d", in.key, int(wait.Seconds()))
	case amount != demoAmount:
		detail = fmt.Sprintf("%s again, but for %s", in.key, price)
	case in.asked > 0:
		detail = in.key + " again, the very same request"
	case in.account != demoShop:
		detail = fmt.Sprintf("account %s, %s", in.account, detail)
	}
	in.asked++
	d.out.say("client", "POST /payments", detail)
}

func (d *demo) sayAnswer(who string, in *intent, r reply) {
	in.answers = append(in.answers, strconv.Itoa(r.status))
	if r.status == http.StatusCreated || r.status == http.StatusAccepted {
		in.payment = r.body.ID
	}
	what, detail := r.describe()
	d.out.say(who, what, detail)
}

// want turns an unexpected answer into an error.
func want(r reply, status int) error {
	if r.status != status {
		return fmt.Errorf("the answer was %d and not %d", r.status, status)
	}
	return nil
}

// books tells the row and the ledger.
func (d *demo) showBooks(ctx context.Context, in *intent) error {
	return firstError(d.showRow(ctx, in), d.showLedger(ctx, in))
}

func firstRequest(ctx context.Context, d *demo) error {
	in := d.add(&intent{story: "first request", account: demoShop, key: "order-1001", order: "1001", token: "tok_ok"})
	r, err := d.ask(ctx, in, 0)
	if err != nil {
		return err
	}
	return firstError(want(r, http.StatusCreated), d.showBooks(ctx, in))
}

func lostAnswer(ctx context.Context, d *demo) error {
	in := d.add(&intent{story: "answer lost", account: demoShop, key: "order-1002", order: "1002", token: "tok_ok"})
	d.sayAsked(in, demoAmount, 0)
	conn, err := d.client.sendOnly(ctx, in)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = eventually(ctx, patience, func() (bool, error) {
		rec, err := d.keyRow(ctx, in)
		in.payment = rec.Resource
		return rec.Status == onlyonce.Completed, err
	})
	if err != nil {
		return err
	}
	in.answers = append(in.answers, "lost")
	d.out.say("client", "hangs up", "the answer was on its way, nobody read it")
	if err := errors.Join(conn.Close(), d.showBooks(ctx, in)); err != nil {
		return err
	}
	r, err := d.ask(ctx, in, 0)
	if err != nil {
		return err
	}
	return firstError(want(r, http.StatusCreated), d.showLedger(ctx, in))
}

// outcome is an answer that arrives later.
type outcome struct {
	reply reply
	err   error
}

func (d *demo) askAside(ctx context.Context, in *intent) <-chan outcome {
	d.sayAsked(in, demoAmount, 0)
	later := make(chan outcome, 1)
	go func() {
		r, err := d.client.pay(ctx, in, in.body(), 0)
		later <- outcome{r, err}
	}()
	return later
}

func inFlight(ctx context.Context, d *demo) error {
	in := d.add(&intent{story: "retry in flight", account: demoShop, key: "order-1003", order: "1003", token: "tok_slow"})
	first := d.askAside(ctx, in)
	err := eventually(ctx, patience, func() (bool, error) {
		rec, err := d.keyRow(ctx, in)
		return rec.Status == onlyonce.InProgress, err
	})
	if err != nil {
		return err
	}
	if err := d.showRow(ctx, in); err != nil {
		return err
	}
	r, err := d.ask(ctx, in, 0)
	if err == nil {
		err = want(r, http.StatusConflict)
	}
	if err != nil {
		return err
	}
	waited, err := d.ask(ctx, in, waitPrefer)
	if err == nil {
		err = want(waited, http.StatusCreated)
	}
	if err != nil {
		return err
	}
	original := <-first
	if original.err != nil {
		return original.err
	}
	d.sayAnswer("to first", in, original.reply)
	return firstError(want(original.reply, http.StatusCreated), d.showBooks(ctx, in))
}

func killed(ctx context.Context, d *demo) error {
	in := d.add(&intent{
		story: "kill -9 after the charge", account: demoShop, key: "order-1004", order: "1004", token: "tok_timeout_charged",
	})
	first := d.askAside(ctx, in)
	if err := d.awaitCharge(ctx, in); err != nil {
		return err
	}
	d.sayLedger(in)
	pid := d.child.pid()
	if err := d.child.kill(); err != nil {
		return err
	}
	d.out.say("server", "killed", fmt.Sprintf("kill -9 %d: money has moved, nothing is stored", pid))
	if lost := <-first; lost.err == nil {
		return fmt.Errorf("the killed server has answered %d", lost.reply.status)
	}
	in.answers = append(in.answers, "lost")
	d.out.say("client", "no answer", "the connection broke")
	if err := d.showRow(ctx, in); err != nil {
		return err
	}
	if err := d.child.start(ctx); err != nil {
		return err
	}
	d.out.say("server", "started again", fmt.Sprintf("process %d, the same files", d.child.pid()))
	return firstError(d.untilFinal(ctx, in), d.showBooks(ctx, in))
}

// awaitCharge waits until the provider's ledger has the intent's charge.
func (d *demo) awaitCharge(ctx context.Context, in *intent) error {
	return eventually(ctx, patience, func() (bool, error) {
		if in.payment == "" {
			rec, err := d.keyRow(ctx, in)
			in.payment = rec.Resource
			return false, err
		}
		err := d.readLedger(ctx)
		return chargesOf(d.ledger, in.payment) > 0, err
	})
}

// untilFinal retries the very same request until its answer is final, and
// tells each answer that differs from the one before.
func (d *demo) untilFinal(ctx context.Context, in *intent) error {
	told, same := "", 0 // the answer told last, and how often it has come since
	d.sayAsked(in, demoAmount, 0)
	for range maxRetries {
		r, err := d.client.pay(ctx, in, in.body(), 0)
		if err != nil {
			return err
		}
		what, _ := r.describe()
		if what != told {
			if same > 0 {
				d.out.say("client", plural(same, "more try", "more tries"), told+" each time, until the lease is over")
			}
			d.sayAnswer("answer", in, r)
			told, same = what, 0
		} else {
			same++
		}
		if r.status == http.StatusCreated {
			return nil
		}
		if r.status != http.StatusAccepted && r.status != http.StatusConflict {
			return want(r, http.StatusCreated)
		}
		if err := pause(ctx, retryAfter(r)); err != nil {
			return err
		}
		in.asked++
	}
	return fmt.Errorf("there was no final answer after %d retries", maxRetries)
}

func retryAfter(r reply) time.Duration {
	seconds, err := strconv.Atoi(r.header.Get("Retry-After"))
	if err != nil {
		return retryAtMost
	}
	return min(time.Duration(seconds)*time.Second, retryAtMost)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func otherBody(ctx context.Context, d *demo) error {
	in := d.played[0]
	r, err := d.askFor(ctx, in, otherAmount, 0)
	if err != nil {
		return err
	}
	return firstError(want(r, http.StatusUnprocessableEntity), d.showBooks(ctx, in))
}

func otherAccount(ctx context.Context, d *demo) error {
	in := d.add(&intent{story: "another account's", account: demoOther, key: "order-1001", order: "1001", token: "tok_ok"})
	r, err := d.ask(ctx, in, 0)
	if err != nil {
		return err
	}
	if in.payment == d.played[0].payment {
		return errors.New("both accounts got the same payment")
	}
	return firstError(want(r, http.StatusCreated), d.showBooks(ctx, in))
}

func neverAnswers(ctx context.Context, d *demo) error {
	in := d.add(&intent{
		story: "provider never answers", account: demoShop, key: "order-1005", order: "1005", token: "tok_timeout_charged",
	})
	r, err := d.ask(ctx, in, 0)
	if err == nil {
		err = want(r, http.StatusAccepted)
	}
	if err != nil {
		return err
	}
	if err := d.showBooks(ctx, in); err != nil {
		return err
	}
	r, err = d.ask(ctx, in, waitPrefer)
	if err != nil {
		return err
	}
	return firstError(want(r, http.StatusCreated), d.showBooks(ctx, in))
}
