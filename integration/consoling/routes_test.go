//go:build !race

package consoling

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/outbox"
	"github.com/rehop/rehop/triage"
)

// writtenRoutes are the routes of the console, such as "GET failed". A test of package console compares them with those that it has.
func writtenRoutes(t *testing.T) (routes []string) {
	t.Helper()
	text, err := os.ReadFile("../../console/testdata/routes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if part := strings.Fields(line); !strings.HasPrefix(line, "#") {
			routes = append(routes, part[0]+" "+strings.TrimPrefix(part[1], "."))
		}
	}
	return routes
}

// secrets are values of messages that are masked.
var secrets = []string{"secret-42", "t-hidden", "hidden@example.com"}

// withEverything gives a console all ways to log in, and masks.
func withEverything(t *testing.T, a *admin.Admin) func(*console.Options) {
	mask, err := triage.NewMask(triage.MaskRules{Headers: []string{"token"}, Paths: []string{"customer.email"}, Texts: []string{`secret-\d+`}})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *console.Options) {
		byHeader := o.Authenticate
		o.Mask, o.Connect = mask, func(context.Context) (*admin.Admin, error) { return a, nil }
		o.Authenticate = func(r *http.Request) (console.User, error) {
			if r.Header.Get("Role") == "" {
				return console.User{}, console.ErrNoUser
			}
			return byHeader(r)
		}
		o.Login = func(context.Context, string, string) (console.User, error) {
			return console.User{Name: "bob", Role: console.Viewer}, nil
		}
		o.Provider = &console.LoginProvider{Name: "Example",
			Begin: func(context.Context, console.LoginAttempt) (string, error) { return "https://id.example/", nil },
			Finish: func(context.Context, console.LoginAttempt, url.Values) (console.User, error) {
				return console.User{}, errors.New("not in this test")
			}}
	}
}

// setAside is an outbox with a message that cannot be published, and the row of that.
func setAside(t *testing.T, ctx context.Context) (box outbox.Inspector, row string) {
	t.Helper()
	db := (&lab.Database{Driver: "sqlite", Source: "file:" + filepath.Join(t.TempDir(), "box.db") + "?_pragma=busy_timeout(10000)"}).Open(t)
	if err := (dialect.Migration{Dialect: dialect.SQLite}).Run(ctx, db); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(ctx, "INSERT INTO rehop_outbox (nonce, state, shard, due, created, size, attempts, message_id, exchange, routing_key, order_key, properties, headers, body, error)"+
		" VALUES (7, 3, 0, 0, 0, 2, 5, 'b1', '', 'orders', '', '{}', '', '{}', 'refused secret-42')"); err != nil {
		t.Fatal(err)
	}
	box = outbox.Inspector{DB: db, Dialect: dialect.SQLite}
	all, err := box.List(ctx, outbox.StateSetAside, outbox.RowID{}, 10)
	if err != nil || len(all) != 1 {
		t.Fatalf("got %+v, %v, want one message that is set aside", all, err)
	}
	return box, all[0].Row.String()
}

// Every route, with what it is for: each change leaves exactly one record, everything else none, and no answer has what is masked. A route
// that is not in the table fails the test.
func TestEveryRoute(t *testing.T) {
	r := lab.Embedded(t)
	ctx := kit.Timeout(t, kit.Limit)
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	box, row := setAside(t, ctx)
	x := newIndexed(t, withEverything(t, a), withOutbox(box))
	client := kit.Open(t, rehop.Config{URL: r.URL})
	fails := rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.Replays > 0 {
			return nil
		}
		return errors.New("refused secret-42")
	})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "orders", Retry: rehop.NoRetry(), Handler: fails})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "ordered", Retry: rehop.NoRetry(), Handler: fails, OrderBy: func(*rehop.Delivery) string { return "k" }, AfterFail: rehop.Halt})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "retried", Retry: rehop.Steps(time.Hour), Handler: fails})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "retried-in-order", Retry: rehop.Steps(time.Hour), Handler: fails, OrderBy: func(*rehop.Delivery) string { return "secret-42" }})
	message := func(queue, id string) rehop.Message {
		return rehop.Message{Key: queue, ID: id, ContentType: "application/json", Body: []byte(`{"customer":{"email":"hidden@example.com"},"note":"secret-42","n":1}`), Headers: map[string]any{"token": "t-hidden"}}
	}
	kit.Publish(t, client, message("orders", "m1"), message("orders", "m2"), message("ordered", "o1"), message("retried", "r1"), message("retried-in-order", "r2"))
	for queue, n := range map[string]int{"orders": 2, "ordered": 1} {
		lab.Eventually(t, kit.Limit, "the failed messages of "+queue, func() bool {
			q, err := a.Queue(ctx, queue)
			return err == nil && q.Failed == n
		})
	}
	for what, is := range map[string]func() bool{
		"a message waits for its next attempt": func() bool {
			waits := 0
			err := a.EachWaiting(ctx, "rehop.step.1h", 10, func(admin.Message) error { waits++; return nil })
			return err == nil && waits == 1
		},
		"a message is held": func() bool {
			held, _, err := a.Held(ctx, "retried-in-order")
			return err == nil && len(held) == 1 && held[0].Error != ""
		},
	} {
		lab.Eventually(t, kit.Limit, what, is)
	}
	all := some(3)
	for i := range all {
		m := message("orders", all[i].ID)
		all[i].Error, all[i].Stack, all[i].Headers, all[i].Body, all[i].ContentType = "refused secret-42", "at secret-42", m.Headers, m.Body, m.ContentType
	}
	x.put(all...)
	group, refs := x.onlyGroup().ID, x.refs()
	run := "" // that was started

	// page is the last answer.
	page := ""
	rows := []struct {
		route, query string
		form         func() url.Values
		role         string
		status       int
		action       string // of the record; empty: there is none
	}{
		{"GET login", "", nil, "", 200, ""},
		{"POST login", "", func() url.Values { return url.Values{"password": {"x"}} }, "", 303, ""},
		{"GET provider", "", nil, "", 303, ""},
		{"GET callback", "", nil, "", 400, ""},
		{"POST logout", "", nil, "viewer", 303, ""},
		{"POST preferences", "", func() url.Values { return url.Values{"theme": {"dark"}} }, "viewer", 303, ""},
		{"GET ", "", nil, "viewer", 200, ""},
		{"GET events", "", nil, "viewer", 200, ""},
		{"GET queues", "", nil, "viewer", 200, ""},
		{"GET queue", "name=orders", nil, "viewer", 200, ""},
		{"GET consumers", "queue=orders", nil, "viewer", 200, ""},
		{"GET failed", "queue=orders", nil, "viewer", 200, ""},
		{"GET message", "queue=orders&id=m1", nil, "viewer", 200, ""},
		{"GET body", "queue=orders&id=m1", nil, "viewer", 200, ""},
		{"GET export", "queue=orders&format=csv", nil, "viewer", 200, ""},
		{"POST confirm", "", func() url.Values {
			return url.Values{"where": {"queue=orders"}, "do": {"replay-selected"}, "pick": {"m1"}}
		}, "operator", 200, ""},
		{"POST replay", "", func() url.Values { return fields(page) }, "operator", 200, "failed.replay"},
		{"POST confirm", "", func() url.Values {
			return url.Values{"where": {"queue=orders"}, "do": {"discard-selected"}, "pick": {"m2"}}
		}, "operator", 200, ""},
		{"POST discard", "", func() url.Values { return fields(page) }, "operator", 200, "failed.discard"},
		{"GET groups", "", nil, "viewer", 200, ""},
		{"GET group", "id=" + group, nil, "viewer", 200, ""},
		{"POST group", "", func() url.Values { return url.Values{"id": {group}, "note": {"see secret-42"}} }, "operator", 303, "group.set"},
		{"GET search", "q=refused", nil, "viewer", 200, ""},
		{"GET found", "ref=" + refs[0], nil, "viewer", 200, ""},
		{"GET found.body", "ref=" + refs[0], nil, "viewer", 200, ""},
		{"GET found.export", "q=refused&format=jsonl", nil, "viewer", 200, ""},
		{"GET edit", "ref=" + refs[0], nil, "operator", 200, ""},
		{"POST edit", "", func() url.Values { return with(fields(page), "headers", `{"token": "[masked]", "edited": true}`) }, "operator", 200, ""},
		{"POST resend", "", func() url.Values { return fields(page) }, "operator", 303, "run.start"},
		{"POST plan", "", func() url.Values { return url.Values{"pick": refs[1:2], "do": {"replay"}} }, "operator", 200, ""},
		{"POST start", "", func() url.Values { return fields(page) }, "operator", 303, "run.start"},
		{"GET runs", "", nil, "viewer", 200, ""},
		{"GET run", "", nil, "viewer", 200, ""},
		{"POST run", "", func() url.Values { return url.Values{"id": {run}, "state": {"paused"}} }, "operator", 303, "run.paused"},
		{"GET audit", "verify=1", nil, "admin", 200, ""},
		{"GET waiting", "", nil, "viewer", 200, ""},
		{"GET waiting", "step=rehop.step.1h", nil, "viewer", 200, ""},
		{"GET held", "queue=ordered", nil, "viewer", 200, ""},
		{"GET held", "queue=retried-in-order", nil, "viewer", 200, ""},
		{"POST skip", "", func() url.Values { return url.Values{"queue": {"ordered"}, "pick": {"o1"}} }, "operator", 200, "held.skip"},
		{"GET outbox", "", nil, "viewer", 200, ""},
		{"GET outbox", "name=shop", nil, "viewer", 200, ""},
		{"POST outbox", "", func() url.Values { return url.Values{"where": {"name=shop"}, "do": {"retry"}, "pick": {row}} }, "operator", 200, "outbox.retry"},
		{"GET topology", "", nil, "viewer", 200, ""},
		{"GET topology.svg", "", nil, "viewer", 200, ""},
		{"GET doctor", "examine=1", nil, "viewer", 200, ""},
		{"GET settings", "", nil, "viewer", 200, ""},
		{"POST sessions", "", nil, "admin", 200, "sessions.end"},
		{"GET shortcuts", "", nil, "viewer", 200, ""},
	}
	// These have something of a message, so they must have masks.
	masked := []string{"GET failed?queue=orders", "GET message?queue=orders&id=m1", "GET body?queue=orders&id=m1", "GET export?queue=orders&format=csv", "GET groups?", "GET group?id=" + group, "GET search?q=refused",
		"GET found?ref=" + refs[0], "GET found.body?ref=" + refs[0], "GET edit?ref=" + refs[0], "POST edit?", "GET audit?verify=1", "GET waiting?step=rehop.step.1h", "GET held?queue=retried-in-order", "GET outbox?name=shop"}
	shown := 0
	tried := map[string]bool{}
	for _, c := range rows {
		method, path, _ := strings.Cut(c.route, " ")
		query := c.query
		if c.route == "GET run" {
			query = "id=" + run
		}
		var form url.Values
		if c.form != nil {
			form = c.form()
		}
		before := x.changes()
		asking, cancel := context.WithCancel(ctx)
		if path == "events" {
			cancel() // the stream ends after its first event
		}
		request := httptest.NewRequestWithContext(asking, method, "/"+path+"?"+query, strings.NewReader(form.Encode()))
		request.Host = "localhost"
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if c.role != "" {
			request.Header.Set("Role", c.role)
		}
		w := httptest.NewRecorder()
		x.console.ServeHTTP(w, request)
		cancel()
		if page = w.Body.String(); w.Code != c.status {
			t.Fatalf("%s?%s %v: got %d %s, want %d", c.route, query, form, w.Code, page, c.status)
		}
		if strings.HasPrefix(page, "<!doctype") {
			check(t, c.route, page)
		}
		x.lacks(page, secrets...)
		if slices.Contains(masked, c.route+"?"+query) {
			x.has(page, "[masked")
			shown++
		}
		tried[c.route] = true
		if id, found := strings.CutPrefix(w.Header().Get("Location"), "run?id="); found {
			run = id
		}
		want := int64(0)
		if c.action != "" {
			want = 1
		}
		if got := x.changes() - before; got != want {
			t.Errorf("%s: got %d records, want %d", c.route, got, want)
			continue
		}
		if c.action != "" {
			last, err := x.store.AuditRecords(ctx, 0, 1)
			if err != nil || last[0].Action != c.action || last[0].Actor != c.role+" <ann>" {
				t.Errorf("%s: got the record %+v, %v, want %s by the user", c.route, last, err, c.action)
			}
		}
		if strings.HasPrefix(c.route, "GET") && c.action != "" {
			t.Errorf("%s: a GET must change nothing", c.route)
		}
	}
	for _, route := range writtenRoutes(t) {
		if !tried[route] {
			t.Errorf("%q is not in the table: add what it does, and whether that is a change", route)
		}
		delete(tried, route)
	}
	for route := range tried {
		t.Errorf("%q is in the table, and the console does not have it", route)
	}
	if shown != len(masked) {
		t.Errorf("%d pages with masks were tried, want %d", shown, len(masked))
	}
	if _, err := x.store.VerifyAudit(ctx, triage.Head{}); err != nil {
		t.Error(err)
	}
}
