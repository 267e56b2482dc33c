package engines

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// up is what is up, read once per test binary; what is not is said loudly.
var up = sync.OnceValues(func() (Up, error) {
	up, err := read(os.Getenv(FileVariable))
	if err == nil && len(up.Missing) > 0 {
		fmt.Fprintln(os.Stderr, up.loud())
	}
	return up, err
})

// loud is the line that nobody should overlook.
func (u Up) loud() string {
	var names []string
	for _, m := range u.Missing {
		names = append(names, m.Name)
	}
	return "ENGINES NOT RUN: " + strings.Join(names, ", ") + ". make test, or make engines, brings them up."
}

// Each runs the test on every engine that is up, as a subtest of the engine's
// name. With ONLYONCE_ENGINES a missing one fails the test.
func Each(t *testing.T, test func(t *testing.T, e Engine)) {
	t.Helper()
	for _, e := range Named(t, Names()...) {
		t.Run(e.Name, func(t *testing.T) { test(t, e) })
	}
}

// Named returns those of the engines that are up, in the order of Names. With
// ONLYONCE_ENGINES it leaves out what that doesn't name and fails the test for
// what is missing of it.
func Named(t testing.TB, names ...string) []Engine {
	t.Helper()
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			t.Fatalf("there is no engine %q: say some of %s", name, strings.Join(Names(), ", "))
		}
	}
	up, err := up()
	if err != nil {
		t.Fatal(err)
	}
	found, missing, err := up.choose(os.Getenv(WantVariable), names)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		t.Errorf("%s wants %s, which is not up: %s", WantVariable, m.Name, m.Reason)
	}
	return found
}

// choose picks those of the names that WantVariable wants: what is up of them,
// and what is missing although it must be there.
func (u Up) choose(want string, names []string) (found []Engine, missing []Missing, err error) {
	wanted, must, err := Wanted(want)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			continue
		}
		if i := slices.IndexFunc(u.Engines, func(e Engine) bool { return e.Name == name }); i >= 0 {
			found = append(found, u.Engines[i])
			continue
		}
		reason := "the run that started the servers left it out"
		if i := slices.IndexFunc(u.Missing, func(m Missing) bool { return m.Name == name }); i >= 0 {
			reason = u.Missing[i].Reason
		}
		if must {
			missing = append(missing, Missing{name, reason})
		}
	}
	return found, missing, nil
}
