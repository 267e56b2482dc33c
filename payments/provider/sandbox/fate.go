package sandbox

import "strings"

// delivery is how the answer to the first send goes out, after it is durable.
type delivery string

const (
	deliverWhole   delivery = ""        // as it should
	deliverNever   delivery = "never"   // the connection is held without a byte
	deliverReset   delivery = "reset"   // the connection is cut
	deliverGarbage delivery = "garbage" // the JSON is cut off in the middle
)

// fate is what becomes of a charge or refund. The zero fate is that all is well.
type fate struct {
	slow     bool     // executes after Options.SlowBy
	busy     int      // how many sends are first answered that the key is in use
	lost     bool     // the first send is neither executed nor answered
	broken   bool     // answers 500, which stays with the key
	skips    bool     // and does so without executing
	declined string   // the decline code
	delivery delivery // of the first answer
}

// fates are the tokens with a fate. Any other text is charged.
var fates = map[string]fate{
	"tok_ok":                 {},
	"tok_declined":           {declined: "generic_decline"},
	"tok_insufficient_funds": {declined: "insufficient_funds"},
	"tok_slow":               {slow: true},
	"tok_timeout_charged":    {delivery: deliverNever},
	"tok_timeout_lost":       {lost: true},
	"tok_error_charged":      {broken: true},
	"tok_error_lost":         {broken: true, skips: true},
	"tok_reset_charged":      {delivery: deliverReset},
	"tok_garbage_charged":    {delivery: deliverGarbage},
	"tok_busy":               {busy: 2},
}

const (
	tokenPrefix  = "tok_"
	refundPrefix = "tok_refund_"
)

// refundFate is the token whose fate the refunds of a charge meet: for a charge
// with tok_refund_X that of tok_X. The charge itself is then well.
func refundFate(token string) string {
	if rest, ok := strings.CutPrefix(token, refundPrefix); ok {
		if _, known := fates[tokenPrefix+rest]; known {
			return tokenPrefix + rest
		}
	}
	return ""
}
