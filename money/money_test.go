package money_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/onlyonce-go/onlyonce/money"
)

func usd(minor int64) money.Amount { return money.Amount{Minor: minor, Currency: "USD"} }

func TestAddAndSubAreExactOrRefuse(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	for _, row := range []struct {
		a, b     int64
		sum      int64
		sumOver  bool
		diff     int64
		diffOver bool
	}{
		{0, 0, 0, false, 0, false},
		{2500, 803, 3303, false, 1697, false},
		{1, 2, 3, false, -1, false},
		{-1, 2, 1, false, -3, false},
		{money.Max, money.Max, 2 * money.Max, false, 0, false},
		{1<<53 + 1, 0, 1<<53 + 1, false, 1<<53 + 1, false}, // where floats lose the last digit
		{most, 0, most, false, most, false},
		{most, 1, 0, true, most - 1, false},
		{most, most, 0, true, 0, false},
		{most, -1, most - 1, false, 0, true},
		{least, 0, least, false, least, false},
		{least, 1, least + 1, false, 0, true},
		{least, -1, 0, true, least + 1, false},
		{least, least, 0, true, 0, false},
		{0, least, least, false, 0, true}, // its negative does not exist
		{-1, least, 0, true, most, false},
	} {
		sum, err := usd(row.a).Add(usd(row.b))
		if row.sumOver != errors.Is(err, money.ErrOverflow) || !row.sumOver && (err != nil || sum != usd(row.sum)) {
			t.Errorf("%d + %d = %v, %v", row.a, row.b, sum, err)
		}
		diff, err := usd(row.a).Sub(usd(row.b))
		if row.diffOver != errors.Is(err, money.ErrOverflow) || !row.diffOver && (err != nil || diff != usd(row.diff)) {
			t.Errorf("%d - %d = %v, %v", row.a, row.b, diff, err)
		}
	}
}

func TestSubUndoesAdd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := usd(rapid.Int64().Draw(t, "a")), usd(rapid.Int64().Draw(t, "b"))
		sum, err := a.Add(b)
		if err != nil {
			if sum != (money.Amount{}) {
				t.Fatalf("a refused sum is %v", sum)
			}
			return
		}
		if back, err := sum.Sub(b); err != nil || back != a {
			t.Fatalf("%v + %v - %v = %v, %v", a, b, b, back, err)
		}
	})
}

func TestCurrenciesAreNeverMixed(t *testing.T) {
	jpy := money.Amount{Minor: 1, Currency: "JPY"}
	for _, a := range []money.Amount{jpy, {Minor: 1}, {Minor: 1, Currency: "usd"}, {}} {
		if got, err := usd(1).Add(a); !errors.Is(err, money.ErrMixed) || got != (money.Amount{}) {
			t.Errorf("USD + %+v = %v, %v", a, got, err)
		}
		if got, err := a.Sub(usd(1)); !errors.Is(err, money.ErrMixed) || got != (money.Amount{}) {
			t.Errorf("%+v - USD = %v, %v", a, got, err)
		}
	}
}

func TestAmountsAreWrittenWithTheirOwnDecimals(t *testing.T) {
	for want, a := range map[string]money.Amount{
		"25.00 USD": usd(2500), "0.00 USD": usd(0), "0.01 USD": usd(1), "0.99 USD": usd(99), "1.00 USD": usd(100),
		"-0.01 USD": usd(-1), "-25.50 USD": usd(-2550), "8.03 USD": usd(803),
		"100 JPY":                   {Minor: 100, Currency: "JPY"},
		"-1 JPY":                    {Minor: -1, Currency: "JPY"},
		"1.250 KWD":                 {Minor: 1250, Currency: "KWD"},
		"-0.005 KWD":                {Minor: -5, Currency: "KWD"},
		"90071992547409.93 USD":     usd(9007199254740993),
		"92233720368547758.07 USD":  usd(math.MaxInt64),
		"-92233720368547758.08 USD": usd(math.MinInt64),
		"0":                         {},
	} {
		if got := a.String(); got != want {
			t.Errorf("%+v is written %q, want %q", a, got, want)
		}
	}
}

// What is written reads back as the same whole number, in every currency's
// decimals.
func TestNoDigitIsLostInWriting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		code := rapid.SampledFrom([]money.Currency{"JPY", "USD", "KWD"}).Draw(t, "currency")
		minor := rapid.Int64().Draw(t, "minor")
		number, currency, _ := strings.Cut(money.Amount{Minor: minor, Currency: code}.String(), " ")
		whole, decimals, _ := strings.Cut(number, ".")
		back, err := strconv.ParseInt(whole+decimals, 10, 64)
		if err != nil || back != minor || currency != string(code) || len(decimals) != code.Exponent() {
			t.Fatalf("%d %s is written %q and reads %d, %v", minor, code, number, back, err)
		}
	})
}

func TestExponents(t *testing.T) {
	for code, want := range map[string]int{
		"JPY": 0, "KRW": 0, "CLP": 0, "ISK": 0, "UGX": 0, "VND": 0, "XOF": 0, "PYG": 0,
		"USD": 2, "EUR": 2, "GBP": 2, "HUF": 2, "TWD": 2, "MGA": 2, "MRU": 2, "IDR": 2, "COP": 2, "CVE": 2,
		"KWD": 3, "BHD": 3, "OMR": 3, "JOD": 3, "TND": 3, "IQD": 3, "LYD": 3,
	} {
		c, err := money.ParseCurrency(code)
		if err != nil || c != money.Currency(code) || c.Exponent() != want {
			t.Errorf("%s: %q, exponent %d, %v, want %d", code, c, c.Exponent(), err, want)
		}
	}
	for _, code := range []string{
		"", "usd", "Usd", "US", "USDX", " USD", "USD ", "XXX", "XAU", "XTS", "ZZZ", "840", "ÜSD",
	} {
		if c, err := money.ParseCurrency(code); !errors.Is(err, money.ErrCurrency) || c != "" {
			t.Errorf("%q was parsed as %q, %v", code, c, err)
		}
	}
}

func TestAMillionOfTheLargestFit(t *testing.T) {
	if money.Max > math.MaxInt64/1_000_000 {
		t.Errorf("a million times %d overflows", int64(money.Max))
	}
}
