// Package money is integer money: whole numbers of minor units with a currency.
package money

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Max is the largest amount of one payment, refund or transfer, in minor
// units. Sums of a million of them still fit an int64.
const Max = 999_999_999_999

var (
	// ErrCurrency: the code is not an ISO 4217 currency with a known exponent.
	// Correct it.
	ErrCurrency = errors.New("unknown currency")
	// ErrMixed: amounts of two currencies can't be added. It is the caller's
	// mistake; nothing was computed.
	ErrMixed = errors.New("amounts have different currencies")
	// ErrOverflow: the sum does not fit. Nothing was computed.
	ErrOverflow = errors.New("amount overflows")
)

// Currency is an upper-case ISO 4217 code, for example "USD".
type Currency string

// ParseCurrency accepts exactly the upper-case codes of the table.
func ParseCurrency(code string) (Currency, error) {
	if _, ok := exponents[Currency(code)]; !ok {
		return "", fmt.Errorf("%w: %q is not an upper-case ISO 4217 code with minor units", ErrCurrency, code)
	}
	return Currency(code), nil
}

// Exponent is the number of decimals of the currency's minor unit: JPY 0,
// USD 2, KWD 3 (ISO 4217 list one). The currency must be known.
func (c Currency) Exponent() int { return exponents[c] }

// Amount is money in minor units of its currency. The zero Amount has no
// currency.
type Amount struct {
	Minor    int64
	Currency Currency
}

// Add returns the sum, or ErrMixed or ErrOverflow.
func (a Amount) Add(b Amount) (Amount, error) {
	if a.Currency != b.Currency {
		return Amount{}, fmt.Errorf("%w: %s and %s", ErrMixed, a.Currency, b.Currency)
	}
	sum := a.Minor + b.Minor
	if (sum > a.Minor) != (b.Minor > 0) {
		return Amount{}, fmt.Errorf("%w: %d + %d", ErrOverflow, a.Minor, b.Minor)
	}
	return Amount{sum, a.Currency}, nil
}

// Sub returns a minus b, or ErrMixed or ErrOverflow.
func (a Amount) Sub(b Amount) (Amount, error) {
	if a.Currency != b.Currency {
		return Amount{}, fmt.Errorf("%w: %s and %s", ErrMixed, a.Currency, b.Currency)
	}
	diff := a.Minor - b.Minor
	if (diff < a.Minor) != (b.Minor > 0) {
		return Amount{}, fmt.Errorf("%w: %d - %d", ErrOverflow, a.Minor, b.Minor)
	}
	return Amount{diff, a.Currency}, nil
}

// String writes the amount for people, with the currency's own decimals:
// "25.00 USD", "100 JPY", "-1.250 KWD".
func (a Amount) String() string {
	sign, digits := "", strconv.FormatInt(a.Minor, 10)
	if a.Minor < 0 {
		sign, digits = "-", digits[1:]
	}
	exp := a.Currency.Exponent()
	if exp > 0 {
		if len(digits) <= exp {
			digits = strings.Repeat("0", exp+1-len(digits)) + digits
		}
		digits = digits[:len(digits)-exp] + "." + digits[len(digits)-exp:]
	}
	return strings.TrimSpace(sign + digits + " " + string(a.Currency))
}
