package httponce

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds how deep objects and arrays may nest: far more than any
// request of ours needs, far less than a stack.
const maxDepth = 32

// Canonical checks a JSON text strictly and returns the one form that all
// texts of the same meaning share: no white space, members sorted as RFC 8785
// sorts them, strings escaped in one way, each number byte for byte as it was
// written, because every digit counts.
//
// Its errors are a *[Problem] invalid-request with a JSON pointer: a member
// that stands twice (names are compared after unescaping), anything after the
// value, NUL in a string or a name, invalid UTF-8, a lone surrogate, more than
// 32 levels. What it returns it accepts again, unchanged.
func Canonical(body []byte) ([]byte, error) {
	if err := checkTokens(body); err != nil {
		return nil, err
	}
	out, err := jsontext.AppendFormat(make([]byte, 0, len(body)), body, jsontext.ReorderRawObjects(true))
	if err != nil {
		return nil, syntaxProblem(err)
	}
	return out, nil
}

// checkTokens reads one JSON value and refuses what the grammar allows and we
// don't. What may follow the value is the grammar's business.
func checkTokens(body []byte) error {
	// NUL can be written in one way only; most bodies are spared the unescaping.
	suspicious := bytes.Contains(body, []byte(`\u0000`))
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return syntaxProblem(err)
		}
		if suspicious && token.Kind() == '"' && strings.ContainsRune(token.String(), 0) {
			return malformed(dec.StackPointer(), "must not contain the character NUL (U+0000)")
		}
		if dec.StackDepth() > maxDepth {
			return malformed(dec.StackPointer(), "is nested too deeply: at most 32 levels are allowed")
		}
		if dec.StackDepth() == 0 {
			return nil
		}
	}
}

// syntaxProblem says where the JSON is wrong and how, in our words where the
// decoder's would not help a client.
func syntaxProblem(err error) *Problem {
	if errors.Is(err, io.EOF) {
		return malformed("", "is empty: send a JSON value")
	}
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) {
		return malformed("", "is not valid JSON")
	}
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return malformed(syntax.JSONPointer, "stands twice: which of the two is meant can't be told")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformed(syntax.JSONPointer, "breaks off in the middle")
	}
	return malformed(syntax.JSONPointer, "is not valid JSON: "+syntax.Err.Error())
}

func malformed(at jsontext.Pointer, detail string) *Problem {
	return InvalidRequest("The body is not acceptable JSON.", FieldError{Pointer: string(at), Detail: detail})
}
