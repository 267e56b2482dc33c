package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/db"
)

// keysCmd looks at the rows of idempotency_keys.
type keysCmd struct {
	Show keysShowCmd `cmd:"" help:"Show a key's row, as it was claimed and now, beside what it made."`
	List keysListCmd `cmd:"" help:"List keys, newest first."`
}

// maxEvents bounds a timeline that is shown; a payment that was looked at
// daily for a week has about thirty.
const maxEvents = 500

type keysShowCmd struct {
	storeFlags
	Account string `arg:"" help:"The account that the key belongs to."`
	Key     string `arg:"" help:"The idempotency key, byte for byte."`
	JSON    bool   `name:"json"`
}

func (keysShowCmd) example() string {
	return "onlyonce keys show 17 order-42\nonlyonce keys show 17 order-42 --json"
}

// shownKey is a key's row and all that it made.
type shownKey struct {
	record  onlyonce.Record
	payment *payments.Payment // the one it made, or the one its refund belongs to
	refund  *payments.Refund
	events  []payments.Event // of what it made
	alone   bool             // the library's own: what it made is in tables that only the application knows
}

// Run draws the key.
func (c keysShowCmd) Run(p *program) error {
	o, err := p.openKeys(c.storeFlags)
	if err != nil {
		return err
	}
	defer o.close()
	shown, err := o.showKey(p.ctx, onlyonce.Key{Account: c.Account, Name: c.Key})
	if errors.Is(err, onlyonce.ErrInvalidKey) {
		return refuse("%v", err)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(p.stdout, shown.line())
	}
	_, err = fmt.Fprint(p.stdout, shown.draw(p.paintFor(p.stdout)))
	return err
}

// loadKey reads a key's row; it is zero if the key is free.
func (o *opened) loadKey(ctx context.Context, key onlyonce.Key) (rec onlyonce.Record, err error) {
	if err := key.Validate(); err != nil {
		return rec, err
	}
	err = o.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) error {
		recs, err := o.store.Store().Load(ctx, tx, []onlyonce.Key{key}, false)
		if err == nil {
			rec = recs[0]
		}
		return err
	})
	return rec, err
}

func (o *opened) showKey(ctx context.Context, key onlyonce.Key) (shownKey, error) {
	rec, err := o.loadKey(ctx, key)
	if err != nil {
		return shownKey{}, err
	}
	if rec.Status == "" {
		return shownKey{}, fmt.Errorf("account %s has no key %q: `onlyonce keys list --account %s` shows those there are",
			visible(key.Account), key.Name, visible(key.Account))
	}
	s := shownKey{record: rec, alone: o.db == nil}
	if s.alone {
		return s, nil
	}
	paymentID := ""
	switch payments.KindOf(rec.Resource) {
	case payments.KindRefund:
		refund, err := o.db.Refund(ctx, key.Account, rec.Resource)
		if err != nil {
			return s, fmt.Errorf("read what the key made: %w", err)
		}
		s.refund, paymentID = &refund, refund.PaymentID
	case payments.KindPayment:
		paymentID = rec.Resource
	default:
		return s, nil // nothing was made: the key ended in a refusal, or has only been claimed
	}
	payment, err := o.db.Payment(ctx, key.Account, paymentID)
	if err != nil {
		return s, fmt.Errorf("read what the key made: %w", err)
	}
	s.payment = &payment
	s.events, _, err = o.db.Events(ctx, key.Account, rec.Resource, 0, maxEvents)
	if err != nil {
		return s, fmt.Errorf("read the timeline: %w", err)
	}
	return s, nil
}

type keysListCmd struct {
	storeFlags
	Account string `placeholder:"ID" help:"Only this account's keys. Default: all accounts."`
	Status  string `placeholder:"STATUS" enum:",in_progress,completed,tombstone" default:""`
	Limit   int    `default:"20"`
	JSON    bool   `name:"json"`
}

func (keysListCmd) example() string {
	return "onlyonce keys list --account 17\nonlyonce keys list --status in_progress --limit 100"
}

const (
	maxListed  = 1000
	listPage   = 200
	maxScanned = 100_000 // rows looked through for those with a status
)

// Run lists the keys.
func (c keysListCmd) Run(p *program) error {
	if c.Limit < 1 || c.Limit > maxListed {
		return refuse("--limit is %d: it must be 1 to %d", c.Limit, maxListed)
	}
	o, err := p.openKeys(c.storeFlags)
	if err != nil {
		return err
	}
	defer o.close()
	accounts, err := o.accounts(p.ctx, c.Account)
	if err != nil {
		return err
	}
	var all []onlyonce.Record
	for _, account := range accounts {
		recs, err := o.listKeys(p.ctx, account, onlyonce.Status(c.Status), c.Limit)
		if err != nil {
			return err
		}
		all = append(all, recs...)
	}
	slices.SortStableFunc(all, func(a, b onlyonce.Record) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return writeKeys(p, all[:min(len(all), c.Limit)], c.JSON)
}

// accounts returns the one account, or with "" all that have ever had an API
// key. Without the tables of the payments nothing lists accounts.
func (o *opened) accounts(ctx context.Context, only string) ([]string, error) {
	if only != "" {
		return []string{only}, nil
	}
	if o.db == nil {
		return nil, refuse("this database has keys alone and no list of accounts: name one with --account ID")
	}
	keys, err := o.db.APIKeys(ctx, "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, k := range keys {
		names = append(names, k.Account)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// listKeys returns an account's newest keys with a status, "" for any.
func (o *opened) listKeys(ctx context.Context, account string, status onlyonce.Status, limit int) (
	[]onlyonce.Record, error,
) {
	var found []onlyonce.Record
	after := ""
	for range maxScanned / listPage {
		var page []onlyonce.Record
		err := o.store.View(ctx, func(ctx context.Context, tx onlyonce.Tx) (err error) {
			page, err = o.store.Store().List(ctx, tx, account, after, listPage)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, rec := range page {
			if status == "" || rec.Status == status {
				found = append(found, rec)
			}
		}
		if len(page) < listPage || len(found) >= limit {
			break
		}
		after = page[len(page)-1].Key.Name
	}
	return found[:min(len(found), limit)], nil
}

func writeKeys(p *program, recs []onlyonce.Record, asJSON bool) error {
	if asJSON {
		for _, rec := range recs {
			if err := writeJSON(p.stdout, keyRowOf(rec)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(recs) == 0 {
		fmt.Fprintln(p.stdout, "There is no such key.")
		return nil
	}
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CREATED\tACCOUNT\tKEY\tSTATUS\tATTEMPT\tMADE")
	for _, rec := range recs {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\n", rec.CreatedAt.UTC().Format(time.DateTime),
			clip(rec.Key.Account, 12), clip(rec.Key.Name, 20), rec.Status, rec.Attempt, orDash(rec.Resource))
	}
	return w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return visible(s)
}

// compile-time proof that what ensureAccount needs is what the database has.
var _ keyRing = (*db.DB)(nil)
