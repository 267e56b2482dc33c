package sandbox

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/onlyonce-go/onlyonce/money"
)

const (
	maxAmount        = money.Max * 100 // the largest of ours where a unit is counted as a hundred
	maxMetadataPairs = 50              // Stripe's limits, and in characters
	maxMetadataName  = 40
	maxMetadataValue = 500
)

// input is what a POST asks for.
type input struct {
	amount   int64 // 0 for a refund of all that is left
	currency string
	token    string
	charge   string
	metadata string // JSON object, names sorted
}

// members are the parameters that an endpoint knows, beside metadata.
var members = map[string]map[string]bool{
	kindPayment: {
		"amount": true, "currency": true, "payment_method": true, "payment_method_types[]": true,
		"confirm": true, "error_on_requires_action": true, "description": true,
	},
	kindRefund: {"payment_intent": true, "amount": true, "reason": true},
}

// parse reads the parameters, or says what is wrong with the first bad one.
func parse(kind string, form url.Values) (input, *problem) {
	in := input{
		currency: strings.ToLower(form.Get("currency")),
		token:    form.Get("payment_method"), charge: form.Get("payment_intent"),
	}
	for name, values := range form {
		_, isMeta := metadataName(name)
		switch {
		case !isMeta && !members[kind][name]:
			return in, invalid("parameter_unknown", name, "Received unknown parameter.")
		case len(values) > 1:
			return in, invalid("parameter_invalid", name, "Given more than once.")
		}
	}
	var p *problem
	if in.metadata, p = parseMetadata(form); p != nil {
		return in, p
	}
	if form.Has("amount") || kind == kindPayment {
		n, err := strconv.ParseInt(form.Get("amount"), 10, 64)
		if err != nil || n < 1 || n > maxAmount {
			return in, invalid("parameter_invalid_integer", "amount", "Invalid positive integer.")
		}
		in.amount = n
	}
	if kind == kindRefund {
		if in.charge == "" {
			return in, invalid("parameter_missing", "payment_intent", "Missing required param.")
		}
		return in, nil
	}
	if _, err := money.ParseCurrency(strings.ToUpper(in.currency)); err != nil {
		return in, invalid("parameter_invalid", "currency", "Invalid currency.")
	}
	if in.token == "" {
		return in, invalid("parameter_missing", "payment_method", "Missing required param.")
	}
	if form.Get("confirm") != "true" {
		return in, invalid("parameter_invalid", "confirm", "The sandbox only makes payments that are confirmed at once.")
	}
	return in, nil
}

// metadataName is X of metadata[X].
func metadataName(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "metadata[")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "]")
}

func parseMetadata(form url.Values) (string, *problem) {
	pairs := map[string]string{}
	for name, values := range form {
		short, ok := metadataName(name)
		if !ok {
			continue
		}
		long := utf8.RuneCountInString(short) > maxMetadataName || utf8.RuneCountInString(values[0]) > maxMetadataValue
		if short == "" || long || len(pairs) >= maxMetadataPairs || !utf8.ValidString(short+values[0]) {
			return "{}", invalid("parameter_invalid", "metadata", "Too many or too long.")
		}
		pairs[short] = values[0]
	}
	b, err := json.Marshal(pairs)
	if err != nil {
		return "{}", invalid("parameter_invalid", "metadata", "Unreadable.")
	}
	return string(b), nil
}

func invalid(code, param, message string) *problem {
	return &problem{
		status: http.StatusBadRequest, Type: "invalid_request_error", Code: code, Param: param, Message: message,
	}
}
