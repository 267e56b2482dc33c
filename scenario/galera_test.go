package scenario_test

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/onlyonce-go/onlyonce/internal/engines"
	"github.com/onlyonce-go/onlyonce/internal/engines/cluster"
)

func TestGaleraScenarios(t *testing.T) {
	if os.Getenv(cluster.Variable) != "1" {
		fmt.Fprintln(os.Stderr, "CLUSTERS NOT RUN: the scenarios for Galera are played with "+cluster.Variable+"=1")
		return
	}
	g := cluster.NewGalera(t)
	db, err := engines.Open(g.Nodes[0])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE scratch"); err != nil {
		t.Fatal(err)
	}
	g.WaitSynced()
	played := map[string]bool{}
	playAll(t, played, g.Nodes[0]+"scratch", g.Nodes[1]+"scratch")
	for _, s := range builtIn(t) {
		if slices.Contains(s.Engines, "galera") && !played[s.Name] {
			t.Errorf("%s is for Galera and was not played", s.Name)
		}
	}
}
