package flow

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/onlyonce-go/onlyonce/payments"
)

// ErrInvalid: a text of the request is too long, or not one that every engine
// keeps as it is. Correct the request; nothing was run and the key is not spent.
var ErrInvalid = errors.New("the request can't be stored")

// What a request's texts may hold, in characters, and an answer's, in bytes:
// the columns are as wide.
const (
	maxOrderID     = 255
	maxDescription = 1000
	maxReason      = 500
	maxWord        = 255 // the provider's ids and codes
	maxDetail      = 1 << 10
)

// checkText returns an error unless every engine keeps the text as it is.
func checkText(what, text string, most int) error {
	switch n := utf8.RuneCountInString(text); {
	case n > most:
		return fmt.Errorf("%w: the %s must have at most %d characters, not %d", ErrInvalid, what, most, n)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fmt.Errorf("%w: the %s must be UTF-8 without NUL", ErrInvalid, what)
	}
	return nil
}

// storable makes an answer's texts fit for every engine: what the provider did
// must not stay unknown because of how it says so.
func storable(a payments.Answer) payments.Answer {
	a.Code, a.Detail = cut(a.Code, maxWord), cut(a.Detail, maxDetail)
	if a.ProviderID != cut(a.ProviderID, maxWord) {
		a.ProviderID = "" // half an id is another one
	}
	return a
}

// cut shortens a text to so many bytes and leaves out what no text may hold.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
	for len(text) > most {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
