package triaging

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/triage"
)

// pageTimes measures the pages of a console that read the index, without a browser, and returns the 95th percentile of the slowest one.
func pageTimes(t *testing.T, ctx context.Context, store *triage.Store, run string) time.Duration {
	t.Helper()
	pages, err := console.New(console.Options{Logger: slog.New(slog.DiscardHandler),
		Triage:       func(context.Context) (*triage.Store, error) { return store, nil },
		Connect:      func(context.Context) (*admin.Admin, error) { return nil, errors.New("there is none in this test") },
		Authenticate: func(*http.Request) (console.User, error) { return console.User{Name: "ann", Role: console.Admin}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	groups, err := store.Groups(ctx, triage.GroupFilter{})
	if err != nil || len(groups.Groups) == 0 {
		t.Fatalf("got %d groups, %v", len(groups.Groups), err)
	}
	found, err := store.Search(ctx, triage.Query{}, triage.Page{})
	if err != nil || len(found.Messages) == 0 {
		t.Fatalf("got %d messages, %v", len(found.Messages), err)
	}
	frequent := "?" + url.Values{"q": {commonWords[0] + " " + commonWords[1]}}.Encode()
	var slowest time.Duration
	for _, c := range []struct{ name, target string }{
		{"groups", "/groups"},
		{"a group", "/group?" + url.Values{"id": {groups.Groups[0].ID}}.Encode()},
		{"search for all", "/search"},
		{"search for frequent words", "/search" + frequent},
		{"search for a key", "/search?" + url.Values{"q": {"state:failed key:orders.*"}}.Encode()},
		{"a message", "/found?" + url.Values{"ref": {found.Messages[0].Ref}}.Encode()},
		{"runs", "/runs"},
		{"a run", "/run?" + url.Values{"id": {run}}.Encode()},
		{"audit", "/audit"},
		{"edit", "/edit?" + url.Values{"ref": {found.Messages[0].Ref}}.Encode()},
	} {
		took := repeat(t, 20, func() error {
			r := httptest.NewRequest("GET", c.target, strings.NewReader(""))
			r.Host = "localhost"
			w := httptest.NewRecorder()
			if pages.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("GET %s: got %d %s", c.target, w.Code, w.Body)
			}
			return nil
		})
		t.Logf("page, %s: p95 %v", c.name, percentile(took))
		slowest = max(slowest, percentile(took))
	}
	return slowest
}
