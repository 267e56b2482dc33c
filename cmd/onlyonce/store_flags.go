package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// storeFlags say where the database is. Every command that reads it has them.
type storeFlags struct {
	DB                  string `name:"db" from:"ONLYONCE_DB" default:"sqlite:onlyonce.db" placeholder:"URL"`
	UnsafeAsyncFailover bool   `from:"ONLYONCE_UNSAFE_ASYNC_FAILOVER"`
}

// path returns the file of an SQLite database, "" for any other.
func (f storeFlags) path() string {
	path, _ := strings.CutPrefix(f.DB, "sqlite:")
	if path == f.DB {
		return ""
	}
	return path
}

// server returns the URL of a database server. It is nil for anything else,
// and for what can't be read without fear that a piece of the password is
// taken for something else: a URL has one @ at most, right before the hosts, and
// no fragment. Otherwise a password's own /, ?, # or @ has ended it too early.
func (f storeFlags) server() *url.URL {
	if f.path() != "" {
		return nil
	}
	u, err := url.Parse(f.DB)
	at := strings.Count(f.DB, "@")
	if err != nil || at > 1 || u.User == nil && at > 0 || strings.Contains(f.DB, "#") {
		return nil
	}
	return u
}

// shown is the database as people may see it: where it is, and nothing that a
// password could be in.
func (f storeFlags) shown() string {
	if f.path() != "" {
		return f.DB
	}
	if u := f.server(); u != nil {
		return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	}
	scheme, _, _ := strings.Cut(f.DB, ":")
	return scheme + "://…"
}

// dbFlag repeats --db in a line to paste, where it is not the default. A
// password is left to the environment.
func (f storeFlags) dbFlag() string {
	if f.DB == "sqlite:onlyonce.db" {
		return ""
	}
	if f.path() == "" {
		u := f.server()
		if u == nil {
			return ` --db "$ONLYONCE_DB"`
		}
		if _, secret := u.User.Password(); secret || u.RawQuery != "" {
			return ` --db "$ONLYONCE_DB"`
		}
	}
	return " --db " + shellQuoted(f.DB)
}

// check refuses a URL that can't be meant.
func (f storeFlags) check() error {
	if f.path() != "" {
		return nil
	}
	scheme, rest, _ := strings.Cut(f.DB, ":")
	if !slices.Contains([]string{"postgres", "postgresql", "mysql", "mariadb"}, scheme) || !strings.HasPrefix(rest, "//") {
		return refuse("--db must be sqlite:PATH, postgres://USER:PASSWORD@HOST:PORT/NAME or " +
			"mysql://USER:PASSWORD@HOST:PORT/NAME")
	}
	u := f.server()
	switch {
	case u == nil:
		return refuse("--db %s can't be read: write %s://USER:PASSWORD@HOST:PORT/NAME, with special characters of "+
			"user and password as %%XX, for example %%40 for @, %%2F for / and %%23 for #", f.shown(), scheme)
	case u.Host == "" && u.RawQuery == "" || strings.Trim(u.Path, "/") == "":
		return refuse("--db %s lacks the host or the database's name: write %s://USER:PASSWORD@HOST:PORT/NAME",
			f.shown(), scheme)
	}
	return nil
}

// open opens the database.
func (f storeFlags) open(ctx context.Context, o sqlstore.Options) (*sqlstore.DB, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	o.UnsafeAsyncFailover = f.UnsafeAsyncFailover
	store, err := sqlstore.Open(ctx, f.DB, o)
	if err != nil {
		return nil, f.failed(err)
	}
	return store, nil
}

// failed says which database could not be used, why, and what to do.
func (f storeFlags) failed(err error) error {
	switch why := f.withoutSecrets(serversWords(err)); {
	case errors.Is(err, sqlstore.ErrUnsafeSettings):
		return refuse("--db %s: %s", f.shown(), strings.ReplaceAll(why, "Options.UnsafeAsyncFailover",
			"--unsafe-async-failover"))
	case f.path() != "":
		return fmt.Errorf("--db %s: %w%s", f.shown(), err, fileCure("--db", f.path()))
	case errors.Is(err, sqlstore.ErrUnavailable):
		return fmt.Errorf("--db %s: %s: start the server, wait until it is ready, or correct host and port", f.shown(), why)
	default:
		return fmt.Errorf("--db %s: %s: correct user, password, name or parameters in the URL; the database must be "+
			"there (CREATE DATABASE), and the user must be allowed to use it", f.shown(), why)
	}
}

// migrateFailed says why the tables could not be made, and what it takes.
func (f storeFlags) migrateFailed(err error) error {
	for _, known := range []error{sqlstore.ErrUnavailable, sqlstore.ErrUnsafeSettings, sqlstore.ErrSchemaOld,
		sqlstore.ErrSchemaNew} {
		if errors.Is(err, known) {
			return fmt.Errorf("--db %s: %w", f.shown(), err)
		}
	}
	return fmt.Errorf("--db %s: the tables can't be made: %s; onlyonce needs a database of its own, or on PostgreSQL a "+
		"schema, where its user may create tables and no other has these names",
		f.shown(), f.withoutSecrets(serversWords(err)))
}

// serversWords is an error in one line: what the server itself said if it said
// something, else what was met on the way to each of its addresses.
func serversWords(err error) string {
	var said interface { // PostgreSQL's own errors, without the tries before them
		error
		SQLState() string
	}
	if errors.As(err, &said) {
		return said.Error()
	}
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

// withoutSecrets takes the passwords among the URL's parameters out of a text.
// That before the @ is in no driver's messages.
func (f storeFlags) withoutSecrets(text string) string {
	u := f.server()
	if u == nil {
		return text
	}
	for _, name := range []string{"password", "sslpassword"} {
		if secret := u.Query().Get(name); secret != "" {
			text = strings.NewReplacer(secret, "xxxxx", url.QueryEscape(secret), "xxxxx").Replace(text)
		}
	}
	return text
}

const minDBConns = 2

// poolFlags say how much of a database server one of ours may take. By default
// 16 connections write and 4 read: three of our servers, and one more while a
// release is rolled out, stay below the 100 that PostgreSQL takes by default.
type poolFlags struct {
	DBConns int `name:"db-conns" from:"ONLYONCE_DB_CONNS" default:"20" placeholder:"N"`
}

// options shares the connections out: a fifth reads, which is short.
func (f poolFlags) options() (sqlstore.Options, error) {
	const readersOf = 5
	if f.DBConns < minDBConns {
		return sqlstore.Options{}, refuse("--db-conns is %d: it must be %d or more, one to write and one to read",
			f.DBConns, minDBConns)
	}
	readers := max(1, f.DBConns/readersOf)
	return sqlstore.Options{Readers: readers, Writers: f.DBConns - readers}, nil
}
