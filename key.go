package onlyonce

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The widths of the columns, the same on every engine. They are checked before
// any statement: engines differ in what they do with a text that is too long,
// or that is no text.
const (
	maxAccountBytes   = 64
	maxKeyBytes       = 255
	maxOperationBytes = 64
	maxPointBytes     = 64
	maxResourceBytes  = 255
)

// checkText returns an error unless every engine keeps the text as it is.
func checkText(what, text string, maxBytes int) error {
	switch {
	case len(text) > maxBytes:
		return fmt.Errorf("the %s must have at most %d bytes, not %d", what, maxBytes, len(text))
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fmt.Errorf("the %s %q must be UTF-8 without NUL", what, text)
	}
	return nil
}

// Key is an idempotency key: the client's name for an intent, scoped by the
// account it belongs to. Keys are compared byte for byte, on every engine.
type Key struct {
	Account string // 1 to 64 bytes of UTF-8, without NUL
	Name    string // 1 to 255 characters out of 0x20–0x7E, not all blank
}

// Validate returns an error that wraps [ErrInvalidKey] and says what is wrong,
// or nil. Nothing has been read or written when it fails.
func (k Key) Validate() error {
	if k.Account == "" {
		return fmt.Errorf("%w: it needs an account", ErrInvalidKey)
	}
	if err := checkText("account", k.Account, maxAccountBytes); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidKey, err)
	}
	if k.Name == "" || len(k.Name) > maxKeyBytes {
		return fmt.Errorf("%w: it must have 1 to %d characters, not %d", ErrInvalidKey, maxKeyBytes, len(k.Name))
	}
	blank := true
	for i := range len(k.Name) {
		c := k.Name[i]
		if c < 0x20 || c > 0x7e {
			return fmt.Errorf("%w: the byte 0x%02x at position %d is outside 0x20–0x7E", ErrInvalidKey, c, i+1)
		}
		blank = blank && c == ' '
	}
	if blank {
		return fmt.Errorf("%w: it is blank", ErrInvalidKey)
	}
	return nil
}

// String quotes the key, so that it can stand in a log line whatever it holds.
func (k Key) String() string { return fmt.Sprintf("%q/%q", k.Account, k.Name) }

// Intent is what the client wants done once: its name, the operation it asks
// for, and a fingerprint of everything that says what exactly.
type Intent struct {
	Key         Key
	Operation   string // for example "payments.create"; at most 64 bytes
	Fingerprint Fingerprint
}

// validate returns why an intent can't be stored, or nil.
func (in Intent) validate() error {
	if err := in.Key.Validate(); err != nil {
		return err
	}
	if err := checkText("operation", in.Operation, maxOperationBytes); err != nil {
		return fmt.Errorf("key %v: %w", in.Key, err)
	}
	return nil
}

// fingerprintVersion is the first byte of every fingerprint made today. A new
// way to compute one gets a new number, so that rows written by another
// release are recognised as such and not taken for another request.
const fingerprintVersion = 1

// Fingerprint is the hash of a request with a version byte in front. Two
// requests under one key are the same intent if and only if their
// fingerprints are equal.
type Fingerprint string

// NewFingerprint hashes the parts of a request. Where one part ends and the
// next begins counts: ("ab", "c") and ("a", "bc") differ.
func NewFingerprint(parts ...[]byte) Fingerprint {
	sum := digest(parts)
	return Fingerprint(append([]byte{fingerprintVersion}, sum[:]...))
}

// String is the fingerprint in hexadecimal, for people.
func (f Fingerprint) String() string { return hex.EncodeToString([]byte(f)) }

// Known reports whether this release can compare the fingerprint. One that it
// can't must not be answered with a mismatch: see [ErrFingerprintVersion].
func (f Fingerprint) Known() bool {
	return len(f) == 1+sha256.Size && f[0] == fingerprintVersion
}

// Derive returns SHA-256 over the length-prefixed parts. Downstream keys and
// the ids of what an intent makes are derived from (installation, account,
// key, operation, generation) and never minted, so that whoever repeats the
// intent, after any crash or restore, presents the same ones.
func Derive(parts ...string) [sha256.Size]byte {
	raw := make([][]byte, len(parts))
	for i, p := range parts {
		raw[i] = []byte(p)
	}
	return digest(raw)
}

func digest(parts [][]byte) [sha256.Size]byte {
	h := sha256.New()
	var length [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(p)))
		h.Write(length[:])
		h.Write(p)
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}
