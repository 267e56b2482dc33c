package payments

import (
	"encoding/base32"
	"strconv"
	"strings"

	"github.com/onlyonce-go/onlyonce"
)

const (
	paymentPrefix = "pay_"
	refundPrefix  = "re_"
)

// Names are what an intent's resource and its provider key are called. They
// are derived, so that whoever repeats the intent, after any crash or restore,
// presents the same ones.
type Names struct {
	Resource    string // our id
	ProviderKey string
}

// NamesOf derives the names of what an intent makes. The installation is the
// database's own id; generation counts earlier operations made under the same
// account and key after it expired.
func NamesOf(installation string, in onlyonce.Intent, kind Kind, generation int) Names {
	sum := onlyonce.Derive(installation, in.Key.Account, in.Key.Name, in.Operation, strconv.Itoa(generation))
	text := strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
	prefix := paymentPrefix
	if kind == KindRefund {
		prefix = refundPrefix
	}
	// 130 bits name a resource; the provider's key has all 256.
	return Names{Resource: prefix + text[:26], ProviderKey: "onlyonce_" + text}
}

// KindOf tells a resource's kind from its id, "" if it is neither's.
func KindOf(id string) Kind {
	switch {
	case strings.HasPrefix(id, paymentPrefix):
		return KindPayment
	case strings.HasPrefix(id, refundPrefix):
		return KindRefund
	}
	return ""
}
