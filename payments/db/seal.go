package db

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
)

// The first byte of a sealed column.
const (
	schemePlain  = 0
	schemeAESGCM = 1
)

// sealKeyBytes is the length of the key: AES-256.
const sealKeyBytes = 32

// Sealer closes and opens secret columns. The first byte of what it writes
// names the scheme: 0 plain, 1 AES-GCM.
type Sealer struct{ aead cipher.AEAD } // nil: plain

// PlainSealer writes secret columns as they are, behind the scheme byte.
func PlainSealer() Sealer { return Sealer{} }

// NewSealer encrypts secret columns with AES-256-GCM under a key of 32 bytes.
// Columns that were written plain before can still be opened.
func NewSealer(key []byte) (Sealer, error) {
	if len(key) != sealKeyBytes {
		return Sealer{}, fmt.Errorf("the secret key must have %d bytes, not %d", sealKeyBytes, len(key))
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return Sealer{}, fmt.Errorf("secret key: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return Sealer{}, fmt.Errorf("secret key: %w", err)
	}
	return Sealer{aead}, nil
}

// Seal closes what goes into a secret column.
func (s Sealer) Seal(plain []byte) []byte {
	if s.aead == nil {
		return append([]byte{schemePlain}, plain...)
	}
	return s.aead.Seal([]byte{schemeAESGCM}, nil, plain, nil)
}

// Open opens what Seal closed. An error says what to do, and shows nothing.
func (s Sealer) Open(sealed []byte) ([]byte, error) {
	if len(sealed) == 0 {
		return nil, errors.New("open a secret column: it is empty")
	}
	switch scheme, body := sealed[0], sealed[1:]; {
	case scheme == schemePlain:
		return body, nil
	case scheme == schemeAESGCM && s.aead == nil:
		return nil, errors.New("open a secret column: it is encrypted; start with --secret-key-file")
	case scheme == schemeAESGCM:
		plain, err := s.aead.Open(nil, nil, body, nil)
		if err != nil {
			return nil, fmt.Errorf("open a secret column: the secret key does not fit: %w", err)
		}
		return plain, nil
	default:
		return nil, fmt.Errorf("open a secret column: scheme %d is not known to this release", scheme)
	}
}
