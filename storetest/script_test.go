package storetest

import (
	"strings"
	"testing"
)

// TestScenariosParse reads every scenario and expects each to judge something.
func TestScenariosParse(t *testing.T) {
	all, err := readScenarios()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, sc := range all {
		if seen[sc.name] {
			t.Errorf("two scenarios are named %q", sc.name)
		}
		seen[sc.name] = true
		judged := 0
		for _, l := range sc.lines {
			judged += len(l.want)
		}
		if judged == 0 {
			t.Errorf("%q judges nothing", sc.name)
		}
	}
	if len(all) < 30 {
		t.Errorf("%d scenarios were found", len(all))
	}
}

// TestParseRefuses expects mistakes to be found, not skipped.
func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"A claim k1", "== x\n-> won", "== x\nA", "== x\nA claim k ->"} {
		if got, err := parse(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// TestAgrees compares a result with every choice of its words, in front of
// which stands its first, and with one more.
func TestAgrees(t *testing.T) {
	words := []string{"running", "owner=A", "attempt=1", "point=started"}
	result := strings.Join(words, " ")
	for choice := range 1 << (len(words) - 1) {
		want := []string{words[0]}
		for i, w := range words[1:] {
			if choice&(1<<i) != 0 {
				want = append(want, w)
			}
		}
		if !agrees(want, result) {
			t.Errorf("%v does not agree with %q", want, result)
		}
		if agrees(append(want, "owner=B"), result) || len(want) > 1 && agrees(want[1:], result) {
			t.Errorf("%v and a wrong word agree with %q", want, result)
		}
	}
	if agrees([]string{"absent"}, "") {
		t.Error("a word agrees with nothing")
	}
}
