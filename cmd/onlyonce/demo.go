package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// demoCmd plays the failures that the product is for, against a server of its
// own that it kills.
type demoCmd struct {
	DB      string `name:"db" placeholder:"URL" help:"An empty database. Default: an SQLite file of its own."`
	Verbose bool   `short:"v"`
	Keep    bool
	JSON    bool `name:"json"`
}

func (demoCmd) example() string {
	return "onlyonce demo\nonlyonce demo --verbose --keep\nonlyonce demo --db postgres://postgres@127.0.0.1/scratch"
}

// The demo's server has a short lease, so that what was killed is taken over
// while somebody watches, and a provider timeout above the three seconds of
// tok_slow.
const (
	demoLease           = 6 * time.Second
	demoProviderTimeout = 4 * time.Second
	demoCommitWait      = time.Second
	demoSweepEvery      = 500 * time.Millisecond
	demoAtMost          = 2 * time.Minute // far beyond what it takes; then something is wrong
	demoCleanup         = 10 * time.Second
)

// demo is one performance.
type demo struct {
	out    *storyteller
	dir    string
	child  *child
	client *demoClient
	books  *opened // the server's database, read beside it
	ledger []ledgerEntry
	played []*intent
}

// Run plays all acts. It exits 1 if an intent has not exactly one charge.
func (c demoCmd) Run(p *program) (err error) {
	dir, err := os.MkdirTemp("", "onlyonce-demo-")
	if err != nil {
		return fmt.Errorf("make a folder for the demo: %w", err)
	}
	out := &storyteller{to: p.stdout, paint: p.paintFor(p.stdout), json: c.JSON, began: time.Now()}
	defer func() { err = errors.Join(err, c.cleanUp(out, dir)) }()
	ctx, cancel := context.WithTimeout(p.ctx, demoAtMost)
	defer cancel()
	d, err := c.prepare(ctx, p, out, dir)
	if err != nil {
		return err
	}
	defer d.end()
	for _, act := range acts() {
		out.begin(act.title, act.why)
		err := act.play(ctx, d)
		out.endAct()
		if err != nil {
			return d.failure(ctx, act.title, err)
		}
	}
	return d.verdict(ctx)
}

// prepare starts the server and opens its database beside it.
func (c demoCmd) prepare(ctx context.Context, p *program, out *storyteller, dir string) (*demo, error) {
	var log io.Writer
	if c.Verbose {
		log = p.stderr
	}
	store := storeFlags{DB: demoDB(dir)}
	if c.DB != "" {
		store.DB = c.DB
		if err := mustBeEmpty(ctx, store); err != nil {
			return nil, err
		}
	}
	kid, err := newChild(ctx, store.DB, dir, log)
	if err != nil {
		return nil, err
	}
	d := &demo{out: out, dir: dir, child: kid, client: newDemoClient(kid.base)}
	out.title(kid, dir)
	if err := d.child.start(ctx); err != nil {
		return nil, errors.Join(err, d.child.kill())
	}
	inside := *p
	inside.ctx = ctx
	d.books, err = inside.openExisting(storeFlags{DB: kid.db})
	if err != nil {
		return nil, errors.Join(err, d.child.kill())
	}
	return d, nil
}

// mustBeEmpty keeps the demo from a database that somebody uses: its charges
// are none of theirs, and what it counts would not add up.
func mustBeEmpty(ctx context.Context, f storeFlags) error {
	store, err := f.open(ctx, sqlstore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	err = store.CheckSchema(ctx, schema()...)
	if errors.Is(err, sqlstore.ErrSchemaOld) {
		return nil
	}
	if err == nil {
		err = refuse("--db %s has been used already: the demo needs a database of its own, an empty one", f.shown())
	}
	return err
}

// end kills the server, by its process id, and closes its database.
func (d *demo) end() {
	d.child.kill()
	d.books.close()
}

func (c demoCmd) cleanUp(out *storyteller, dir string) error {
	if c.Keep {
		out.kept(dir)
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the demo's folder %s: %w", dir, err)
	}
	return nil
}

// failure says where the demo stopped, with the end of the server's log.
func (d *demo) failure(ctx context.Context, title string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return errors.New("interrupted")
	}
	return fmt.Errorf("the demo stopped at %q: %w\n%s", title, err, d.child.lastLog())
}

// verdict counts the charges per intent in the provider's ledger.
func (d *demo) verdict(ctx context.Context) error {
	if err := d.readLedger(ctx); err != nil {
		return err
	}
	return d.judge()
}

func (d *demo) judge() error {
	once := true
	for _, in := range d.played {
		in.charges = chargesOf(d.ledger, in.payment)
		once = once && in.charges == 1
	}
	// A charge that belongs to no intent would be one too many as well.
	once = once && len(d.ledger) == len(d.played)
	d.out.table(d.played, len(d.ledger), once)
	if !once {
		return finding{"an intent has not exactly one charge"}
	}
	return nil
}

// keyRow reads an intent's row out of the database.
func (d *demo) keyRow(ctx context.Context, in *intent) (onlyonce.Record, error) {
	return d.books.loadKey(ctx, onlyonce.Key{Account: in.account, Name: in.key})
}

// showRow tells how the row stands.
func (d *demo) showRow(ctx context.Context, in *intent) error {
	rec, err := d.keyRow(ctx, in)
	if err != nil {
		return err
	}
	if in.payment == "" {
		in.payment = rec.Resource
	}
	what, detail := string(rec.Status), "no response yet"
	if rec.Status == "" {
		what, detail = "absent", ""
	}
	if rec.Outcome != nil {
		detail = fmt.Sprintf("response %d stored", rec.Outcome.Status)
	}
	if rec.Status == onlyonce.InProgress {
		detail = fmt.Sprintf("point %s, %s", rec.Point, detail)
	}
	d.out.say("key row", what, fmt.Sprintf("attempt %d, %s", rec.Attempt, detail))
	return nil
}

// showLedger tells what the provider has charged for the intent.
func (d *demo) showLedger(ctx context.Context, in *intent) error {
	if err := d.readLedger(ctx); err != nil {
		return err
	}
	d.sayLedger(in)
	return nil
}

func (d *demo) sayLedger(in *intent) {
	n := chargesOf(d.ledger, in.payment)
	d.out.say("ledger", plural(n, "charge", "charges"), "for "+short(in.payment)+
		", "+plural(len(d.ledger), "entry", "entries")+" in all")
}

func (d *demo) readLedger(ctx context.Context) (err error) {
	d.ledger, err = d.client.ledger(ctx)
	return err
}

// demoDB is where the demo's server keeps its rows.
func demoDB(dir string) string { return "sqlite:" + filepath.Join(dir, "onlyonce.db") }
