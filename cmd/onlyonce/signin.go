package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/db"
)

// signIns is who may use the server, and how well kept their keys are.
type signIns struct {
	settings  []accountSetting
	sandbox   bool // no real money behind it
	local     bool // the sandbox, on a loopback address: well-known keys may be used
	wellKnown bool // the well-known API key opens this server
	none      bool // there is no account at all
}

// signIns reads the flags that say who may sign in, and where.
func (c *serveCmd) signIns() (*signIns, error) {
	host, err := splitAddress("--listen", c.Listen)
	if err != nil {
		return nil, err
	}
	if c.OpsListen != "" {
		if _, err := splitAddress("--ops-listen", c.OpsListen); err != nil {
			return nil, err
		}
	}
	who := &signIns{sandbox: c.Provider == providerSandbox}
	who.local = who.sandbox && loopbackHost(host)
	if who.settings, err = parseAccounts(c.Account, who.sandbox); err != nil {
		return nil, err
	}
	switch {
	case c.OperatorKey == "":
	case c.OperatorKey == wellKnownOperator && !who.local:
		return nil, refuse("--operator-key %s is well known: it is for the sandbox on a loopback address, choose another",
			wellKnownOperator)
	case !who.local && len(c.OperatorKey) < minAPIKeyLength:
		return nil, refuse("--operator-key has %d characters: it must have at least %d", len(c.OperatorKey), minAPIKeyLength)
	}
	return who, nil
}

func splitAddress(flag, address string) (host string, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return "", refuse("%s %q is not an address: write HOST:PORT, for example 127.0.0.1:8017", flag, address)
	}
	return host, nil
}

// ensure makes the accounts of the flags; without any, in a database that has
// none, the well-known one if only this machine can reach it.
func (who *signIns) ensure(ctx context.Context, d *db.DB) error {
	present, err := d.APIKeys(ctx, "")
	if err != nil {
		return err
	}
	settings := who.settings
	if len(settings) == 0 && len(present) == 0 && who.local {
		settings = []accountSetting{{wellKnownAccount, wellKnownKey}}
	}
	for _, a := range settings {
		if err := ensureAccount(ctx, d, a, time.Now()); err != nil {
			return err
		}
	}
	who.none = len(settings) == 0 && len(present) == 0
	_, err = d.Authenticate(ctx, wellKnownKey)
	if errors.Is(err, db.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	who.wellKnown = true
	if !who.local && !(who.sandbox && who.asked(wellKnownKey)) {
		return refuse("account %s still has the well-known API key %s, which is for the sandbox on a loopback address: "+
			"end it with `onlyonce accounts rotate %s --overlap 0s`, or start with --listen 127.0.0.1:8017",
			wellKnownAccount, wellKnownKey, wellKnownAccount)
	}
	return nil
}

// asked reports whether a flag names this key, so that its use is meant.
func (who *signIns) asked(key string) bool {
	for _, a := range who.settings {
		if a.key == key {
			return true
		}
	}
	return false
}
