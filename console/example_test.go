package console_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/console"
)

// A server mounts the console at its own path, and knows its own users.
func Example() {
	server := &broker.Server{Logger: slog.New(slog.DiscardHandler)}
	defer server.Close()
	a, err := admin.Open(context.Background(), admin.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer a.Close()

	shown, err := console.New(console.Options{
		Admin: a,
		Base:  "/admin/rehop/",
		Hosts: []string{"shop.example"},
		Authenticate: func(r *http.Request) (console.User, error) {
			name, password, _ := r.BasicAuth() // your own check
			if name != "ann" || password != "secret" {
				return console.User{}, errors.New("wrong user or password")
			}
			return console.User{Name: name, Role: console.Operator}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer shown.Close()
	mux := http.NewServeMux()
	mux.Handle("/admin/rehop/", shown)

	for _, password := range []string{"wrong", "secret"} {
		r := httptest.NewRequest(http.MethodGet, "http://shop.example/admin/rehop/settings", nil)
		r.SetBasicAuth("ann", password)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 200
}
