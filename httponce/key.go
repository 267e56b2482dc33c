package httponce

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/onlyonce-go/onlyonce"
)

// KeyHeader is the request header that carries the idempotency key.
const KeyHeader = "Idempotency-Key"

// ParseKey returns the name of the idempotency key that a request carries: 1
// to 255 characters out of 0x20–0x7E, sent bare (abc) or as a structured-field
// string ("abc"), which are the same key. A value that begins with a quote
// must be a whole structured-field string; parameters after it ("abc";x=1) are
// refused and not ignored, because a client that sends them means something by
// them.
//
// Its errors are a *[Problem]: key-missing if there is no such header, and
// key-invalid if it is empty, blank, malformed, too long or sent twice. They
// never repeat what was sent.
func ParseKey(h http.Header) (string, error) {
	values := h.Values(KeyHeader)
	if len(values) == 0 {
		return "", KeyMissing()
	}
	if len(values) > 1 {
		return "", KeyInvalid(fmt.Sprintf("it was sent %d times", len(values)))
	}
	name := strings.Trim(values[0], " \t") // white space around a field's value is no part of it
	if strings.HasPrefix(name, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{name})
		text, ok := item.Value.(string)
		if err != nil || !ok {
			return "", KeyInvalid("it begins with a quote and is not a structured-field string (RFC 9651)")
		}
		if item.Params != nil && len(item.Params.Names()) > 0 {
			return "", KeyInvalid("it carries parameters, which have no meaning here")
		}
		name = text
	}
	// The key alone is judged here, so any account will do.
	if err := (onlyonce.Key{Account: "-", Name: name}).Validate(); err != nil {
		return "", KeyInvalid(reason(err, onlyonce.ErrInvalidKey))
	}
	return name, nil
}

// reason is what err says beyond the condition that it wraps.
func reason(err, condition error) string {
	if text, ok := strings.CutPrefix(err.Error(), condition.Error()+": "); ok && errors.Is(err, condition) {
		return text
	}
	return err.Error()
}
