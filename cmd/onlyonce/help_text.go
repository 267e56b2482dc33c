package main

// flagHelp is what each flag means, whichever command has it. Defaults and
// environment variables are added from the flags themselves.
var flagHelp = map[string]string{
	"db": "Database: sqlite:PATH, postgres://USER:PASSWORD@HOST/NAME or mysql://USER:PASSWORD@HOST/NAME. " +
		"HOST,HOST is an order of failover. Special characters of a password are written as %XX, and it is better kept " +
		"in the environment variable.",
	"db-conns": "Most connections that this process opens to a database server; a fifth of them only read. " +
		"All servers together must stay below what the database takes.",
	"unsafe-async-failover": "Allow several hosts in --db that don't replicate before they answer COMMIT: " +
		"a failover then loses payments that were reported as done.",
	"json":   "Write JSON for programs, one value per line.",
	"limit":  "At most this many lines, 1 to 1000.",
	"listen": "Address to serve.",

	"lease":            "How long an unfinished claim is left alone before another worker may look at it.",
	"provider-timeout": "Longest wait for one call to the provider.",
	"commit-wait": "How long a request waits for a COMMIT before it answers unknown. " +
		"Default: 10s, or half of what --provider-timeout leaves of --lease if that is less.",
	"sweep-every": "How often another server's unfinished work is looked for.",
	"retention": "How long a finished key's response is kept. " +
		"Less than 24h is refused unless --unsafe-retention is set.",
	"unsafe-retention": "Allow a --retention below 24h.",
	"tombstones": "How long an expired key is still refused, naming what it made. " +
		"0: an expired key is a new operation at once.",
	"secret-key-file": "File with 32 bytes, raw or as 64 hexadecimal digits. Secret columns are encrypted " +
		"with it (AES-256-GCM). Default: none, they are stored plain.",

	"provider": "Payment provider: sandbox (built in) or stripe.",
	"stripe-key": "Secret key of the Stripe account, or of anything that speaks Stripe's wire format. " +
		"sk_live_ and rk_live_ keys move real money.",
	"stripe-url": "Where Stripe's API is. Default: Stripe's own address.",
	"provider-key-window": "How long the provider remembers an idempotency key: past it nothing is sent again. " +
		"Default: 23h, or 23/24 of what the provider declares if that is less.",
	"sandbox-db": "The sandbox's own SQLite file: its keys, objects and ledger. " +
		"Default: the database's file name with -sandbox behind it, else onlyonce-sandbox.db.",
	"sandbox-key-window": "How long the sandbox remembers an idempotency key.",

	"account": "ID=APIKEY: make this account with this API key if it is absent. May be repeated. Default: none, " +
		"but a new database with the sandbox on a loopback address gets account 17 with the key test_17.",
	"operator-key": "Key that signs operators in; this release has no console yet. " +
		"Default: none; with the sandbox on a loopback address test_operator.",
	"max-body":   "Largest request body, for example 64KiB or 1MiB.",
	"log-format": "Log lines on standard error: text or json. With json nothing else is written.",
	"log-level":  "Least level that is logged: debug, info, warn or error.",
	"no-migrate": "Only check the database's schema at start, and refuse to start if it is old.",
	"ops-listen": "Address of its own for /healthz, /readyz, /openapi.yaml and the sandbox's ledger.",

	"check":   "Change nothing; exit 1 if there is something to do.",
	"key":     "Use this API key, 20 characters or more, and not a new random one.",
	"live":    "Make a key that begins with oo_live_ and not with oo_test_.",
	"overlap": "How long the account's present keys still work.",
	"status":  "Only keys with this status: in_progress, completed or tombstone.",
	"verbose": "Show the server's log too.",
	"keep":    "Keep the folder with the databases, and say where it is.",
}
