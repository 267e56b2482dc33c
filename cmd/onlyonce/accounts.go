package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/db"
)

// accountsCmd manages who may sign in.
type accountsCmd struct {
	Add    accountsAddCmd    `cmd:"" help:"Make an account and its API key, which is shown once."`
	List   accountsListCmd   `cmd:"" help:"List accounts and the state of their API keys."`
	Rotate accountsRotateCmd `cmd:"" help:"Give an account a new API key; the present ones work a while longer."`
	Revoke accountsRevokeCmd `cmd:"" help:"End all of an account's API keys at once."`
}

type accountsAddCmd struct {
	storeFlags
	ID   string `arg:"" help:"The account's name, 1 to 64 visible ASCII characters."`
	Key  string `from:"ONLYONCE_NEW_API_KEY" placeholder:"APIKEY"`
	Live bool
	JSON bool `name:"json"`
}

func (accountsAddCmd) example() string {
	return "onlyonce accounts add shop-12\nonlyonce accounts add shop-12 --live --db sqlite:/var/lib/onlyonce/onlyonce.db"
}

// newKeyLine is what add and rotate write for programs.
type newKeyLine struct {
	Account string `json:"account"`
	APIKey  string `json:"apiKey"`
	// OldKeysUntil is when the keys before it end.
	OldKeysUntil *time.Time `json:"oldKeysUntil,omitempty"`
}

// Run makes the account.
func (c accountsAddCmd) Run(p *program) error {
	key, err := chosenKey(c.ID, c.Key, c.Live)
	if err != nil {
		return err
	}
	o, err := p.openExisting(c.storeFlags)
	if err != nil {
		return err
	}
	defer o.close()
	present, err := o.db.APIKeys(p.ctx, c.ID)
	if err != nil {
		return err
	}
	if len(present) > 0 {
		return refuse("account %s exists already: give it a new key with `onlyonce accounts rotate %s`", c.ID, c.ID)
	}
	if err := addKey(p, o, c.ID, key); err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(p.stdout, newKeyLine{Account: c.ID, APIKey: key})
	}
	fmt.Fprintf(p.stdout, "account %s\nAPI key %s\n\nIt is shown this once: only its hash is stored.\n", c.ID, key)
	return nil
}

// chosenKey is the given key, or a new one.
func chosenKey(account, given string, live bool) (string, error) {
	if err := checkAccountID(account); err != nil {
		return "", err
	}
	if given == "" {
		return newAPIKey(live), nil
	}
	if live {
		return "", refuse("--live says how a new key begins, but --key gives one: leave one of them out")
	}
	return given, checkAPIKey(account, given, minAPIKeyLength)
}

func addKey(p *program, o *opened, account, key string) error {
	err := o.db.AddAPIKey(p.ctx, db.APIKey{Account: account, Hash: db.HashKey(key), Role: db.RoleAccount})
	if errors.Is(err, db.ErrConflict) {
		return refuse("the API key in --key is in use or was: take another one, or leave --key out")
	}
	return err
}

type accountsListCmd struct {
	storeFlags
	JSON bool `name:"json"`
}

func (accountsListCmd) example() string {
	return "onlyonce accounts list\nonlyonce accounts list --json"
}

// keyLine is one API key, without the key.
type keyLine struct {
	Account   string     `json:"account"`
	Key       string     `json:"keyHash"` // the beginning of its SHA-256: tells keys apart, opens nothing
	State     string     `json:"state"`
	CreatedAt time.Time  `json:"createdAt"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
}

// shownHashBytes is enough of a hash to tell a few keys apart.
const shownHashBytes = 4

func lineOf(k db.APIKey, now time.Time) keyLine {
	line := keyLine{
		Account: k.Account, Key: hex.EncodeToString(k.Hash[:shownHashBytes]), State: "works", CreatedAt: k.CreatedAt,
		ExpiresAt: unlessZero(k.ExpiresAt), RevokedAt: unlessZero(k.RevokedAt),
	}
	switch {
	case !k.RevokedAt.IsZero():
		line.State = "revoked"
	case !k.Live(now):
		line.State = "expired"
	case !k.ExpiresAt.IsZero():
		line.State = "ends"
	}
	return line
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// Run lists the accounts.
func (c accountsListCmd) Run(p *program) error {
	o, err := p.openExisting(c.storeFlags)
	if err != nil {
		return err
	}
	defer o.close()
	keys, err := o.db.APIKeys(p.ctx, "")
	if err != nil {
		return err
	}
	lines := []keyLine{}
	for _, k := range keys {
		lines = append(lines, lineOf(k, time.Now()))
	}
	if c.JSON {
		for _, line := range lines {
			if err := writeJSON(p.stdout, line); err != nil {
				return err
			}
		}
		return nil
	}
	if len(lines) == 0 {
		fmt.Fprintln(p.stdout, "There is no account yet: make one with `onlyonce accounts add ID`.")
		return nil
	}
	return drawKeys(p, lines)
}

func drawKeys(p *program, lines []keyLine) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "ACCOUNT\tKEY HASH\tSTATE\tSINCE\tUNTIL")
	for _, l := range lines {
		until := "–"
		if l.RevokedAt != nil {
			until = moment(*l.RevokedAt)
		} else if l.ExpiresAt != nil {
			until = moment(*l.ExpiresAt)
		}
		fmt.Fprintf(w, "%s\t%s…\t%s\t%s\t%s\n", visible(l.Account), l.Key, l.State, moment(l.CreatedAt), until)
	}
	return w.Flush()
}

type accountsRotateCmd struct {
	storeFlags
	ID      string        `arg:"" help:"The account's name."`
	Overlap time.Duration `default:"24h" placeholder:"DURATION"`
	Key     string        `from:"ONLYONCE_NEW_API_KEY" placeholder:"APIKEY"`
	Live    bool
	JSON    bool `name:"json"`
}

func (accountsRotateCmd) example() string {
	return "onlyonce accounts rotate shop-12\nonlyonce accounts rotate shop-12 --overlap 0s   # the old key leaked"
}

// Run adds the new key first, so that no moment has no working key.
func (c accountsRotateCmd) Run(p *program) error {
	if c.Overlap < 0 {
		return refuse("--overlap is %v: it must not be negative; 0s ends the present keys at once", c.Overlap)
	}
	key, err := chosenKey(c.ID, c.Key, c.Live)
	if err != nil {
		return err
	}
	o, err := p.openExisting(c.storeFlags)
	if err != nil {
		return err
	}
	defer o.close()
	if err := mustExist(p, o, c.ID); err != nil {
		return err
	}
	if err := addKey(p, o, c.ID, key); err != nil {
		return err
	}
	n, err := o.db.ExpireAPIKeys(p.ctx, c.ID, c.Overlap, db.HashKey(key))
	if err != nil {
		return fmt.Errorf("the new key works, but the old ones still do too, run it again: %w", err)
	}
	until := time.Now().Add(c.Overlap)
	if c.JSON {
		return writeJSON(p.stdout, newKeyLine{Account: c.ID, APIKey: key, OldKeysUntil: unlessZero(until)})
	}
	fmt.Fprintf(p.stdout, "account %s\nAPI key %s\n\nIt is shown this once: only its hash is stored. ", c.ID, key)
	if c.Overlap == 0 {
		fmt.Fprintf(p.stdout, "%s.\n", plural(n, "older key has ended", "older keys have ended"))
		return nil
	}
	fmt.Fprintf(p.stdout, "%s until %s.\n", plural(n, "older key works", "older keys work"), moment(until))
	return nil
}

type accountsRevokeCmd struct {
	storeFlags
	ID   string `arg:"" help:"The account's name."`
	JSON bool   `name:"json"`
}

func (accountsRevokeCmd) example() string { return "onlyonce accounts revoke shop-12" }

// Run ends the keys.
func (c accountsRevokeCmd) Run(p *program) error {
	o, err := p.openExisting(c.storeFlags)
	if err != nil {
		return err
	}
	defer o.close()
	if err := mustExist(p, o, c.ID); err != nil {
		return err
	}
	n, err := o.db.RevokeAPIKeys(p.ctx, c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(p.stdout, map[string]any{"account": c.ID, "revoked": n})
	}
	fmt.Fprintf(p.stdout, "account %s: %s revoked. Its payments and refunds in work go on.\n",
		c.ID, plural(n, "key", "keys"))
	return nil
}

func mustExist(p *program, o *opened, account string) error {
	present, err := o.db.APIKeys(p.ctx, account)
	if err != nil {
		return err
	}
	if len(present) == 0 {
		return refuse("there is no account %s: `onlyonce accounts list` shows those there are", visible(account))
	}
	return nil
}
