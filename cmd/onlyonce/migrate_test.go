package main

import (
	"database/sql"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestMigrationsCanRunTwice: a process that dies between a migration and the
// note that it was applied leaves the next one to run it again.
func TestMigrationsCanRunTwice(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "twice.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ran := 0
	for _, set := range schema() {
		err := fs.WalkDir(set.FS, "sqlite", func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(set.FS, path)
			if err != nil {
				return err
			}
			_, up, _ := strings.Cut(string(text), "-- +goose Up")
			for range 2 {
				if _, err := db.Exec(up); err != nil {
					t.Errorf("%s of %s: %v", path, set.Name, err)
				}
				ran++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	if ran < 4 {
		t.Errorf("%d runs of migrations were found", ran)
	}
}
