//go:build !race

package consoling

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// indexed is a console with an index. The header Role of a request is the role of its user.
type indexed struct {
	t       *testing.T
	store   *triage.Store
	console *console.Console
	options console.Options
}

// newIndexed returns a console with an empty index and, unless an option changes that, without a broker.
func newIndexed(t *testing.T, change ...func(*console.Options)) *indexed {
	t.Helper()
	x := &indexed{t: t}
	db := (&lab.Database{Driver: "sqlite", Source: "file:" + filepath.Join(t.TempDir(), "test.db") + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)"}).Open(t)
	if err := (dialect.Migration{Dialect: dialect.SQLite, Part: dialect.Triage}).Run(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	var err error
	if x.store, err = triage.Open(t.Context(), triage.Config{DB: db, Dialect: dialect.SQLite}); err != nil {
		t.Fatal(err)
	}
	x.options = console.Options{Logger: slog.New(slog.DiscardHandler), Triage: func(context.Context) (*triage.Store, error) { return x.store, nil },
		Connect: func(context.Context) (*admin.Admin, error) { return nil, errors.New("there is none in this test") },
		Authenticate: func(r *http.Request) (console.User, error) {
			role := map[string]console.Role{"viewer": console.Viewer, "operator": console.Operator, "admin": console.Admin}[r.Header.Get("Role")]
			return console.User{Name: r.Header.Get("Role") + " <ann>", Role: role}, nil
		}}
	for _, c := range change {
		c(&x.options)
	}
	x.console = x.with(func(*console.Options) {})
	return x
}

// with returns another console of the same index.
func (x *indexed) with(change func(*console.Options)) *console.Console {
	x.t.Helper()
	o := x.options
	change(&o)
	c, err := console.New(o)
	if err != nil {
		x.t.Fatal(err)
	}
	x.t.Cleanup(c.Close)
	return c
}

// ask sends a request to a console.
func ask(c http.Handler, role, method, target string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = "localhost"
	r.Header.Set("Role", role)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

// get returns a page as an admin sees it, and checks its markup.
func (x *indexed) get(target string) string {
	x.t.Helper()
	w := ask(x.console, "admin", "GET", target, nil)
	if w.Code != http.StatusOK {
		x.t.Fatalf("GET %s: got %d %s, want 200", target, w.Code, w.Body)
	}
	if strings.HasPrefix(w.Body.String(), "<!doctype") {
		check(x.t, target, w.Body.String())
	}
	return w.Body.String()
}

// post sends a form as an operator.
func (x *indexed) post(target string, form url.Values, status int) (text, location string) {
	x.t.Helper()
	w := ask(x.console, "operator", "POST", target, form)
	if w.Code != status {
		x.t.Fatalf("POST %s %v: got %d %s, want %d", target, form, w.Code, w.Body, status)
	}
	if status != http.StatusSeeOther {
		check(x.t, "POST "+target, w.Body.String())
	}
	return w.Body.String(), w.Header().Get("Location")
}

func (x *indexed) has(text string, all ...string) {
	x.t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) && !strings.Contains(html.UnescapeString(text), want) {
			x.t.Errorf("the page does not have %q:\n%s", want, text)
		}
	}
}

func (x *indexed) lacks(text string, all ...string) {
	x.t.Helper()
	for _, bad := range all {
		if strings.Contains(text, bad) {
			x.t.Errorf("the page has %q:\n%s", bad, text)
		}
	}
}

var (
	hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)">`)
	textarea    = regexp.MustCompile(`(?s)<textarea name="([^"]+)"[^>]*>\n?(.*?)</textarea>`)
)

// fields are what a browser sends of a page's form, with line ends as browsers send them. Fields of the frame are there, too.
func fields(text string) url.Values {
	form := url.Values{}
	for _, expression := range []*regexp.Regexp{hiddenField, textarea} {
		for _, m := range expression.FindAllStringSubmatch(text, -1) {
			form.Add(m[1], strings.ReplaceAll(html.UnescapeString(m[2]), "\n", "\r\n"))
		}
	}
	return form
}

func with(form url.Values, pairs ...string) url.Values {
	form = maps.Clone(form)
	for i := 0; i < len(pairs); i += 2 {
		form[pairs[i]] = []string{pairs[i+1]}
	}
	return form
}

// put adds messages to the index.
func (x *indexed) put(messages ...triage.Message) {
	x.t.Helper()
	if err := x.store.Put(x.t.Context(), messages); err != nil {
		x.t.Fatal(err)
	}
}

// some are messages that have failed in the last minutes.
func some(n int) (all []triage.Message) {
	for i := range n {
		all = append(all, triage.Message{ID: fmt.Sprint("m", i), Queue: "orders", FailedQueue: "orders.failed", Key: "orders", Kind: "error", Error: "connection refused", Attempts: 1,
			FailedAt: time.Now().Add(-time.Minute - time.Duration(i)*time.Millisecond), Body: fmt.Appendf(nil, `{"order":%d}`, i), Headers: map[string]any{"tenant": "acme"}, Host: "web-1"})
	}
	return all
}

// refs are the Refs of all messages, the newest failure first.
func (x *indexed) refs() (refs []string) {
	x.t.Helper()
	found, err := x.store.Search(x.t.Context(), triage.Query{}, triage.Page{})
	if err != nil {
		x.t.Fatal(err)
	}
	for _, m := range found.Messages {
		refs = append(refs, m.Ref)
	}
	return refs
}

func (x *indexed) onlyGroup() triage.Group {
	x.t.Helper()
	page, err := x.store.Groups(x.t.Context(), triage.GroupFilter{})
	if err != nil || len(page.Groups) == 0 {
		x.t.Fatalf("got %v, %v, want a group", page, err)
	}
	return page.Groups[0]
}

// changes is how many records the audit has.
func (x *indexed) changes() int64 {
	x.t.Helper()
	head, err := x.store.AuditHead(x.t.Context())
	if err != nil {
		x.t.Fatal(err)
	}
	return head.Number
}
