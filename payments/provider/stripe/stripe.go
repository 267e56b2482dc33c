// Package stripe speaks the wire format of Stripe's API: the only adapter, for
// Stripe itself and for the sandbox, which speaks the same.
//
// It sends a request once. There is no retry in it and none below it: Go's
// transport is kept from repeating a POST by itself, so that every send is one
// that the flow has written down beforehand.
package stripe

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/payments"
	"github.com/onlyonce-go/onlyonce/payments/provider"
)

const (
	// DefaultURL is where Stripe's own API answers.
	DefaultURL = "https://api.stripe.com"
	// DefaultVersion is the Stripe-Version that this adapter was written for.
	// It is stored with every attempt, so a later release that moves it still
	// re-sends the older attempts as they were.
	DefaultVersion = "2025-12-15.clover"

	defaultTimeout = 10 * time.Second
	// stripeRemembers is how long Stripe keeps a key at least, and how long an
	// object may lag in its lists is put at the same day.
	stripeRemembers = 24 * time.Hour
	// maxKeyBytes bounds an API key; real ones have about 110 characters.
	maxKeyBytes = 512
)

// Options configure a [Client]. The zero value of each but Key is its
// documented default.
type Options struct {
	// URL is where the API answers, without a path. Default: [DefaultURL].
	URL string
	// Key is the API key. It is sent to URL alone and never logged.
	Key string
	// Timeout is the longest wait for one call, from dialling to the last byte
	// of the answer. Default 10 s.
	Timeout time.Duration
	// Instance names the account that the key reaches. Default: "stripe:live"
	// for sk_live_ and rk_live_ keys, else "stripe:test".
	Instance string
	// Facts are what the provider guarantees. Default: 24 h and 24 h.
	Facts payments.Facts
	// Version is the Stripe-Version of new requests. Default: [DefaultVersion].
	Version string
	// Now is the clock that sendBy is judged by. Default: time.Now.
	Now func() time.Time
	// Log gets one debug line per call, without bodies and secrets. Default: none.
	Log *slog.Logger
}

// Client is an account at Stripe. It is safe for concurrent use. It keeps idle
// connections; nothing else has to be closed.
type Client struct {
	o    Options
	http *http.Transport
}

var _ provider.Provider = (*Client)(nil)

// New returns a client, or an error that names the option that is wrong.
// Nothing is dialled.
func New(o Options) (*Client, error) {
	o.URL = strings.TrimSuffix(cmp.Or(o.URL, DefaultURL), "/")
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	o.Version = cmp.Or(o.Version, DefaultVersion)
	o.Facts = cmp.Or(o.Facts, payments.Facts{KeyWindow: stripeRemembers, AbsenceGrace: stripeRemembers})
	live := strings.HasPrefix(o.Key, "sk_live_") || strings.HasPrefix(o.Key, "rk_live_")
	if o.Instance == "" {
		o.Instance = "stripe:test"
		if live {
			o.Instance = "stripe:live"
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := o.check(live); err != nil {
		return nil, err
	}
	return &Client{o: o, http: newTransport()}, nil
}

func (o Options) check(live bool) error {
	if o.Key == "" || len(o.Key) > maxKeyBytes || strings.ContainsFunc(o.Key, notToken) {
		return errors.New("stripe: Options.Key is missing or is not an API key: set the secret key of the account")
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return errors.New("stripe: Options.URL must be like https://api.stripe.com, without a path or a user")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("stripe: Options.URL must begin with https:// or http://")
	case u.Scheme == "http" && live && !loopback(u.Hostname()):
		return errors.New("stripe: a live key must not cross a network in clear: set an https:// Options.URL")
	case o.Timeout < 0:
		return fmt.Errorf("stripe: Options.Timeout is %v; it must be positive", o.Timeout)
	case o.Facts.KeyWindow <= 0 || o.Facts.AbsenceGrace <= 0:
		return errors.New("stripe: Options.Facts must hold a positive key window and absence grace, or neither")
	}
	return nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// notToken reports whether the character can't stand in a header or in an id.
func notToken(r rune) bool { return r <= ' ' || r > '~' }

// Instance names the account, for example "stripe:live".
func (c *Client) Instance() string { return c.o.Instance }

// Facts are what the provider guarantees of its keys and lists.
func (c *Client) Facts() payments.Facts { return c.o.Facts }
