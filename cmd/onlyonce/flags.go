package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/onlyonce-go/onlyonce/payments/db"
)

const (
	defaultCommitWait = 10 * time.Second
	minRetention      = 24 * time.Hour // a client's retries of a whole day must still replay
	secretKeyBytes    = 32             // AES-256
)

// timingFlags are what the safety of claims hangs on.
type timingFlags struct {
	Lease           time.Duration  `from:"ONLYONCE_LEASE" default:"30s" placeholder:"DURATION"`
	ProviderTimeout time.Duration  `from:"ONLYONCE_PROVIDER_TIMEOUT" default:"10s" placeholder:"DURATION"`
	CommitWait      *time.Duration `from:"ONLYONCE_COMMIT_WAIT" placeholder:"DURATION"`
	SweepEvery      time.Duration  `from:"ONLYONCE_SWEEP_EVERY" default:"5s" placeholder:"DURATION"`
	Retention       time.Duration  `from:"ONLYONCE_RETENTION" default:"720h" placeholder:"DURATION"`
	UnsafeRetention bool           `from:"ONLYONCE_UNSAFE_RETENTION"`
	Tombstones      time.Duration  `from:"ONLYONCE_TOMBSTONES" default:"2160h" placeholder:"DURATION"`
}

// check refuses timings that can lose money, and returns the commit wait.
func (f timingFlags) check() (commitWait time.Duration, err error) {
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"--lease", f.Lease}, {"--provider-timeout", f.ProviderTimeout}, {"--sweep-every", f.SweepEvery}} {
		if d.value <= 0 {
			return 0, refuse("%s is %v: it must be longer than nothing, for example 10s", d.name, d.value)
		}
	}
	switch {
	case f.ProviderTimeout >= f.Lease:
		return 0, refuse("--provider-timeout (%v) reaches --lease (%v), so a claim could be taken over while its owner "+
			"still waits for the provider: raise --lease or lower --provider-timeout", f.ProviderTimeout, f.Lease)
	case f.Retention < minRetention && !f.UnsafeRetention:
		return 0, refuse("--retention is %v: a retry that comes later would not get its answer back; "+
			"set at least 24h, or add --unsafe-retention if that is meant", f.Retention)
	case f.Retention <= 0:
		return 0, refuse("--retention is %v: it must be longer than nothing; set at least 24h", f.Retention)
	case f.Tombstones < 0:
		return 0, refuse("--tombstones is %v: it must not be negative; 0 means none", f.Tombstones)
	}
	return f.commitWait()
}

// commitWait is what the lease leaves beside the provider's call: half of it,
// so that the other half is there for everything else.
func (f timingFlags) commitWait() (time.Duration, error) {
	if f.CommitWait == nil {
		return min(defaultCommitWait, (f.Lease-f.ProviderTimeout)/2), nil
	}
	if *f.CommitWait <= 0 {
		return 0, refuse("--commit-wait is %v: it must be longer than nothing, for example 10s", *f.CommitWait)
	}
	if f.ProviderTimeout+*f.CommitWait >= f.Lease {
		return 0, refuse("--commit-wait (%v) and --provider-timeout (%v) together reach --lease (%v), so a claim could be "+
			"taken over while its owner still acts: set --commit-wait below %v or raise --lease",
			*f.CommitWait, f.ProviderTimeout, f.Lease, f.Lease-f.ProviderTimeout)
	}
	return *f.CommitWait, nil
}

// tombstones is the engine's way of putting it: there 0 is the default.
func (f timingFlags) tombstones() time.Duration {
	if f.Tombstones == 0 {
		return -1
	}
	return f.Tombstones
}

// secretFlags name the key for what must not be read in a stolen backup.
type secretFlags struct {
	SecretKeyFile string `from:"ONLYONCE_SECRET_KEY_FILE" placeholder:"FILE"`
}

// sealer returns what closes and opens secret columns.
func (f secretFlags) sealer() (db.Sealer, error) {
	if f.SecretKeyFile == "" {
		return db.PlainSealer(), nil
	}
	raw, err := os.ReadFile(f.SecretKeyFile)
	if err != nil {
		return db.Sealer{}, refuse("--secret-key-file can't be read: %v; name a file with 32 bytes or 64 hexadecimal digits",
			err)
	}
	if len(raw) != secretKeyBytes {
		text := strings.TrimSpace(string(raw))
		if raw, err = hex.DecodeString(text); err != nil || len(raw) != secretKeyBytes {
			return db.Sealer{}, refuse("--secret-key-file %s holds neither 32 bytes nor 64 hexadecimal digits: "+
				"make one with `openssl rand -hex 32`", f.SecretKeyFile)
		}
	}
	seal, err := db.NewSealer(raw)
	if err != nil {
		return db.Sealer{}, fmt.Errorf("--secret-key-file: %w", err)
	}
	return seal, nil
}

// byteSize is a number of bytes, written as 65536, 64KiB or 1MiB.
type byteSize int64

// UnmarshalText reads the flag.
func (b *byteSize) UnmarshalText(text []byte) error {
	digits, unit := string(text), int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20} {
		if rest, ok := strings.CutSuffix(digits, suffix); ok {
			digits, unit = rest, factor
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n <= 0 || n > maxBodyBytes/unit {
		return fmt.Errorf("%q is not a size from 1 to 16MiB: write it as 65536, 64KiB or 1MiB", text)
	}
	*b = byteSize(n * unit)
	return nil
}

// maxBodyBytes bounds --max-body: a body is held in memory while it is
// compared, and one outcome may keep 1 MiB at most.
const maxBodyBytes = 16 << 20

// sameFile reports whether two paths name one file.
func sameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	one, errA := os.Stat(a)
	other, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(one, other)
}

// sandboxPath is where the sandbox keeps its own file: beside the database.
func sandboxPath(flag string, store storeFlags) string {
	switch {
	case flag != "":
		return strings.TrimPrefix(flag, "sqlite:")
	case store.path() != "":
		return filepath.Clean(store.path()) + "-sandbox"
	}
	return "onlyonce-sandbox.db"
}
