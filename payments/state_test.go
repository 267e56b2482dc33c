package payments_test

import (
	"slices"
	"testing"

	"github.com/onlyonce-go/onlyonce/payments"
)

// What becomes of news: "=" it is there already, ">" it moves, "x" the news
// contradicts what is proved. Columns are the targets in the order of States.
var moves = map[payments.Kind]map[payments.State]string{
	payments.KindPayment: {
		//                        processing succeeded failed unknown review
		payments.Processing:     "=>>>>",
		payments.Succeeded:      "x=xxx",
		payments.Failed:         "xx=xx",
		payments.PendingUnknown: "x>>=>",
		payments.Review:         "x>>x=",
	},
	payments.KindRefund: {
		payments.Processing:     "=>>>>",
		payments.Succeeded:      "x=>xx", // banks return refunds days later
		payments.Failed:         "xx=xx",
		payments.PendingUnknown: "x>>=>",
		payments.Review:         "x>>x=",
	},
}

func TestEveryMove(t *testing.T) {
	order := []payments.State{
		payments.Processing, payments.Succeeded, payments.Failed, payments.PendingUnknown, payments.Review,
	}
	if !slices.Equal(order, payments.States()) {
		t.Fatalf("the states are %v", payments.States())
	}
	for kind, rows := range moves {
		for _, from := range order {
			for i, to := range order {
				moved, err := payments.Move(kind, from, to)
				got := byte('x')
				switch {
				case err == nil && moved:
					got = '>'
				case err == nil:
					got = '='
				case moved:
					t.Errorf("%s from %s to %s moved and failed", kind, from, to)
				}
				if want := rows[from][i]; got != want {
					t.Errorf("%s from %s to %s: %c, want %c", kind, from, to, got, want)
				}
			}
		}
	}
}

func TestWhatNobodyKnowsNeverMoves(t *testing.T) {
	for _, row := range []struct {
		kind     payments.Kind
		from, to payments.State
	}{
		{"transfer", payments.Processing, payments.Succeeded},
		{payments.KindPayment, "refunded", payments.Succeeded},
		{payments.KindPayment, payments.Processing, "refunded"},
		{payments.KindPayment, "", payments.Succeeded},
	} {
		if moved, err := payments.Move(row.kind, row.from, row.to); moved || err == nil {
			t.Errorf("%+v: %v, %v", row, moved, err)
		}
	}
}

func TestOnlyTwoStatesAreFinal(t *testing.T) {
	for _, s := range payments.States() {
		if want := s == payments.Succeeded || s == payments.Failed; s.Final() != want {
			t.Errorf("%s.Final() = %t", s, s.Final())
		}
	}
}
