package httponce

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxFieldErrors bounds how many faults one answer lists.
const maxFieldErrors = 20

// Kind is what a member of a request's body holds.
type Kind int

const (
	Text  Kind = iota + 1 // a string
	Int                   // a whole number, written as a plain JSON integer
	Pairs                 // an object whose members are strings
)

// Field declares a member of a request's body.
type Field struct {
	Name     string
	Kind     Kind
	Required bool
	// Min and Max bound the characters (code points) of a Text, the value of an
	// Int, the number of Pairs. Both are inclusive and mean what they say, 0 too.
	Min, Max int64
	// MaxName and MaxValue bound the characters of each of the Pairs; a name
	// has at least one.
	MaxName, MaxValue int
	// Check says what else is wrong with a Text ("must be …"), or returns "".
	Check func(text string) string
}

// Object declares the body of a request: an object with these members and no
// others, none of them null.
type Object []Field

// Values are the members that were present.
type Values struct {
	object Object
	member map[string]any
}

// Decode reads a body, as it came or as [Canonical] returned it. Its error is
// a *[Problem] invalid-request that lists every fault, the first 20 at most.
func (o Object) Decode(body []byte) (Values, error) {
	d := decoding{Values: Values{o, make(map[string]any, len(o))}, dec: jsontext.NewDecoder(bytes.NewBuffer(body))}
	if kind := d.dec.PeekKind(); kind != '{' && kind != jsontext.KindInvalid {
		return Values{}, InvalidRequest("The request is not valid.", FieldError{"", "must be an object"})
	}
	if err := d.members(d.field); err != nil {
		return Values{}, syntaxProblem(err)
	}
	if _, err := d.dec.ReadToken(); !errors.Is(err, io.EOF) {
		return Values{}, malformed("", "is followed by something else: the body must be one JSON value")
	}
	for _, f := range o {
		at := jsontext.Pointer("").AppendToken(f.Name)
		if _, ok := d.member[f.Name]; !ok && f.Required && !d.failed[at] {
			d.fail(at, "is required")
		}
	}
	if len(d.errs) > 0 {
		return Values{}, InvalidRequest("The request is not valid, and nothing was run by it. Correct it; "+
			"what its key has been used for stands.", d.errs...)
	}
	return d.Values, nil
}

// Text returns a member of kind Text, "" if it was absent.
func (v Values) Text(name string) string { return get[string](v, name, Text) }

// Int returns a member of kind Int, 0 if it was absent.
func (v Values) Int(name string) int64 { return get[int64](v, name, Int) }

// Pairs returns a member of kind Pairs, nil if it was absent.
func (v Values) Pairs(name string) map[string]string { return get[map[string]string](v, name, Pairs) }

func get[T any](v Values, name string, kind Kind) T {
	v.declared(name, kind)
	t, _ := v.member[name].(T)
	return t
}

// declared panics on a name or kind that the object does not have: the typing
// error of a programmer must not pass for an absent member.
func (v Values) declared(name string, kind Kind) {
	f, ok := v.object.find(name)
	if !ok || f.Kind != kind {
		panic(fmt.Sprintf("httponce: the object declares no such member %q of that kind", name))
	}
}

func (o Object) find(name string) (Field, bool) {
	for _, f := range o {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// decoding is one run of Object.Decode.
type decoding struct {
	Values
	dec    *jsontext.Decoder
	errs   []FieldError
	failed map[jsontext.Pointer]bool // pointers that have an error already
}

func (d *decoding) fail(at jsontext.Pointer, detail string) {
	if d.failed == nil {
		d.failed = map[jsontext.Pointer]bool{}
	}
	d.failed[at] = true
	if len(d.errs) < maxFieldErrors {
		d.errs = append(d.errs, FieldError{string(at), detail})
	}
}

// members reads an object and gives each of its members to one. The errors it
// returns are the grammar's.
func (d *decoding) members(one func(at jsontext.Pointer, name string, value jsontext.Value)) error {
	if _, err := d.dec.ReadToken(); err != nil {
		return err
	}
	for d.dec.PeekKind() != '}' {
		token, err := d.dec.ReadToken()
		if err != nil {
			return err
		}
		name, at := token.String(), d.dec.StackPointer()
		value, err := d.dec.ReadValue()
		if err != nil {
			return err
		}
		one(at, name, value)
	}
	_, err := d.dec.ReadToken()
	return err
}

func (d *decoding) field(at jsontext.Pointer, name string, value jsontext.Value) {
	f, ok := d.object.find(name)
	switch {
	case !ok:
		d.fail(at, "is not a member of this request")
	case value.Kind() == 'n':
		d.fail(at, nullFault(f))
	case f.Kind == Text:
		d.text(at, f, value)
	case f.Kind == Int:
		d.int(at, f, value)
	case f.Kind == Pairs:
		d.pairs(at, f, value)
	default:
		panic(fmt.Sprintf("httponce: the field %q has no kind", f.Name))
	}
}

func nullFault(f Field) string {
	if f.Required {
		return "must not be null"
	}
	return "must not be null: leave it out instead"
}

func (d *decoding) text(at jsontext.Pointer, f Field, value jsontext.Value) {
	text, fault := readText(value, f.Min, f.Max)
	if fault == "" && f.Check != nil {
		fault = f.Check(text)
	}
	if fault != "" {
		d.fail(at, fault)
		return
	}
	d.member[f.Name] = text
}

// readText unquotes a JSON string and says what is wrong with it.
func readText(value jsontext.Value, minimum, maximum int64) (text, fault string) {
	if value.Kind() != '"' {
		return "", "must be a string"
	}
	raw, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", "must be a valid string"
	}
	text = string(raw)
	if strings.ContainsRune(text, 0) {
		return "", "must not contain the character NUL (U+0000)"
	}
	if n := int64(utf8.RuneCountInString(text)); n < minimum || n > maximum {
		return "", fmt.Sprintf("must have %d to %d characters, not %d", minimum, maximum, n)
	}
	return text, ""
}

func (d *decoding) int(at jsontext.Pointer, f Field, value jsontext.Value) {
	written := string(value)
	if value.Kind() != '0' || written == "-0" || strings.ContainsAny(written, ".eE") {
		d.fail(at, "must be a plain whole number: digits alone, no quotes, fraction or exponent")
		return
	}
	n, err := strconv.ParseInt(written, 10, 64)
	if err != nil || n < f.Min || n > f.Max { // what is left of the grammar fails only by its size
		d.fail(at, fmt.Sprintf("must be from %d to %d", f.Min, f.Max))
		return
	}
	d.member[f.Name] = n
}

func (d *decoding) pairs(at jsontext.Pointer, f Field, value jsontext.Value) {
	if value.Kind() != '{' {
		d.fail(at, "must be an object of strings")
		return
	}
	before, pairs := len(d.failed), map[string]string{}
	inner := decoding{dec: jsontext.NewDecoder(bytes.NewBuffer(value))}
	// The outer decoder has read this value, so the grammar holds.
	_ = inner.members(func(within jsontext.Pointer, name string, value jsontext.Value) {
		if n := utf8.RuneCountInString(name); n < 1 || n > f.MaxName || strings.ContainsRune(name, 0) {
			d.fail(at+within, fmt.Sprintf("must have a name of 1 to %d characters without NUL", f.MaxName))
		}
		text, fault := readText(value, 0, int64(f.MaxValue))
		if fault != "" {
			d.fail(at+within, fault)
		}
		pairs[name] = text
	})
	if n := int64(len(pairs)); n < f.Min || n > f.Max {
		d.fail(at, fmt.Sprintf("must have %d to %d members, not %d", f.Min, f.Max, n))
	}
	if len(d.failed) == before {
		d.member[f.Name] = pairs
	}
}
