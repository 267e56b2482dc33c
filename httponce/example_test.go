package httponce_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/onlyonce-go/onlyonce"
	"github.com/onlyonce-go/onlyonce/httponce"
	"github.com/onlyonce-go/onlyonce/sqlstore"
)

// A plain handler sends an email. Wrapped, it sends one per key, however often
// the request comes.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "onlyonce")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	db, err := sqlstore.Open(ctx, "sqlite:"+filepath.Join(dir, "keys.db"), sqlstore.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Migrate(ctx, sqlstore.EngineMigrations()); err != nil {
		panic(err)
	}
	engine, err := onlyonce.New(onlyonce.Options{Store: db.Store()})
	if err != nil {
		panic(err)
	}
	send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("to") == "" {
			httponce.NothingDone(r.Context()) // the same key may come again, corrected
			http.Error(w, "to is missing", http.StatusBadRequest)
			return
		}
		fmt.Println("sending to", r.FormValue("to"))
		w.WriteHeader(http.StatusCreated)
	})
	handler, err := httponce.New(send, httponce.Options{
		Engine:  engine,
		Tx:      db,
		View:    db.View,
		Account: func(r *http.Request) (string, error) { return "the only customer", nil },
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		panic(err)
	}
	for _, url := range []string{"/mail", "/mail?to=ann", "/mail?to=ann", "/mail?to=bob"} {
		r := httptest.NewRequest(http.MethodPost, url, nil)
		r.Header.Set("Idempotency-Key", "welcome-ann")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%d replayed=%q\n", w.Code, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 400 replayed=""
	// sending to ann
	// 201 replayed=""
	// 201 replayed="true"
	// 422 replayed=""
}
