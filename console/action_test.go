package console_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/triage"
)

// messagesOf are messages with the ids prefix0, prefix1 and so on.
func messagesOf(prefix string, n int) (all []rehop.Message) {
	for i := range n {
		all = append(all, rehop.Message{ID: fmt.Sprint(prefix, i)})
	}
	return all
}

// idsOf are the ids in the failed queue of a queue.
func (f *fixture) idsOf(queue string) (ids []string) {
	f.t.Helper()
	messages, err := f.admin.Failed(f.t.Context(), queue, 1000, admin.Filter{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, m := range messages {
		ids = append(ids, m.ID)
	}
	return ids
}

// What cannot be recorded in the audit, because the database of the index cannot be reached, is not done.
func TestNotRecorded(t *testing.T) {
	f := open(t, func(o *console.Options) {
		o.Triage = func(context.Context) (*triage.Store, error) { return nil, errors.New("the database is away") }
	})
	f.fail("orders", messagesOf("m", 2)...)
	for _, action := range []string{"replay", "discard"} {
		p := do(t, f.console, "POST", "/"+action, url.Values{"where": {"queue=orders"}, "count": {"2"}, "typed": {"2"}})
		if p.status < 500 || !strings.Contains(p.text, "the database is away") {
			t.Errorf("%s: got %d %s, want that it is refused, and why", action, p.status, p.text)
		}
	}
	if ids := f.idsOf("orders"); len(ids) != 2 {
		t.Errorf("got %v in the failed queue, want both messages", ids)
	}
}

// What was confirmed is replayed or discarded, and nothing that failed after the confirmation.
func TestExactlyWhatWasConfirmed(t *testing.T) {
	for _, action := range []string{"replay", "discard"} {
		t.Run(action, func(t *testing.T) {
			f := open(t)
			f.fail("orders", messagesOf("old", 5)...)
			asked := f.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {action + "-all"}})
			asked.has(t, `id="count">5<`, "No filter", `<a href="failed?queue=orders">Back to the list`)
			if action == "discard" {
				asked.has(t, `<a href="export?queue=orders&format=jsonl">`)
			}
			f.publish("orders", messagesOf("new", 3)...)
			f.AwaitFailed("orders", 8)
			f.post("/"+action, asked.confirmed(t, url.Values{"typed": {"5"}})).has(t, `id="done">5<`, "<b>5</b> were confirmed")
			if ids := fmt.Sprint(f.idsOf("orders")); ids != "[new0 new1 new2]" {
				t.Errorf("left in the failed queue: got %s, want the messages that failed later", ids)
			}
			if action == "replay" {
				f.AwaitEmpty("orders")
			}
		})
	}
}

// Selected messages, and those that match a filter, are taken, and no others.
func TestSelection(t *testing.T) {
	f := open(t)
	f.subscribe("orders")
	f.publish("orders", messagesOf("a", 4)...)
	f.publish("orders", rehop.Message{ID: "b1", Headers: map[string]any{"fail": "refused"}}, rehop.Message{ID: "b2", Headers: map[string]any{"fail": "refused"}})
	f.AwaitFailed("orders", 6)
	asked := f.post("/confirm", url.Values{"where": {"queue=orders&text=refused"}, "do": {"replay-selected"}, "pick": {"a1", "a3"}})
	asked.has(t, `id="count">2<`, "a1 or a3")
	f.post("/replay", asked.confirmed(t, url.Values{"rate": {"1000"}})).has(t, `id="done">2<`)
	asked = f.post("/confirm", url.Values{"where": {"queue=orders&text=refused"}, "do": {"discard-all"}})
	asked.has(t, `id="count">2<`, "error contains", "refused", "cannot be undone")
	// Without the number, or with another one, nothing is discarded.
	for _, typed := range []string{"", "3", "x"} {
		if p := do(t, f.console, "POST", "/discard", asked.confirmed(t, url.Values{"typed": {typed}})); p.status != 400 || !strings.Contains(p.text, "Type the number") {
			t.Errorf("typed %q: got %d %s, want the question again", typed, p.status, p.text)
		}
	}
	f.post("/discard", asked.confirmed(t, url.Values{"typed": {" 2 "}})).has(t, `id="done">2<`)
	if ids := fmt.Sprint(f.idsOf("orders")); ids != "[a0 a2]" {
		t.Errorf("left in the failed queue: got %s, want [a0 a2]", ids)
	}
	// The same form again takes nothing, and is not an error.
	f.post("/discard", asked.confirmed(t, url.Values{"typed": {"2"}})).has(t, `id="done">0<`, "somebody else has taken")
	f.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {"replay-selected"}, "pick": {"gone"}}).has(t, "No message matches now")
	for _, form := range []url.Values{
		{}, {"where": {"queue=orders"}}, {"where": {"queue=orders"}, "do": {"replay-selected"}}, {"where": {"queue=orders"}, "do": {"drop-all"}},
		{"where": {"queue=orders"}, "do": {"replay-selected"}, "pick": {"%zz"}}, {"where": {"queue=orders&since=x"}, "do": {"replay-all"}},
	} {
		if p := do(t, f.console, "POST", "/confirm", form); p.status != 400 {
			t.Errorf("%v: got %d %s, want 400", form, p.status, p.text)
		}
	}
	for _, form := range []url.Values{
		{"where": {"queue=orders"}}, {"where": {"queue=orders"}, "count": {"0"}}, {"where": {"queue=orders"}, "count": {"1"}, "latest": {"x"}}, {"where": {"queue=orders"}, "count": {"1"}, "rate": {"-1"}},
		{"where": {"queue=orders"}, "count": {"1"}, "rate": {"NaN"}},
	} {
		if p := do(t, f.console, "POST", "/replay", form); p.status != 400 {
			t.Errorf("%v: got %d %s, want 400", form, p.status, p.text)
		}
	}
	if n := f.failedNow("orders"); n != 2 {
		t.Errorf("got %d failed messages, want 2", n)
	}
}

// A filter with "an hour ago" means the same hour when it is confirmed and when it is done.
func TestTimesAreFixedByTheConfirmation(t *testing.T) {
	f := open(t)
	f.fail("orders", messagesOf("m", 1)...)
	asked := f.post("/confirm", url.Values{"where": {"queue=orders&since=1h"}, "do": {"replay-all"}})
	where, err := url.ParseQuery(asked.hidden(t, "where"))
	if err != nil || !strings.HasSuffix(where.Get("since"), "Z") {
		t.Errorf("got since %q, %v, want a time", where.Get("since"), err)
	}
}

// Exports have all messages that match. Spreadsheets do not take their texts as formulas.
func TestExport(t *testing.T) {
	f := open(t)
	f.fail("orders", rehop.Message{ID: "=1+1", Body: []byte(`@SUM(A1)`), Headers: map[string]any{"fail": "-2+3 \"quoted\",\nline"}}, rehop.Message{ID: "m2", Body: []byte{0xff}},
		rehop.Message{ID: "m3", Body: []byte("-12.5")})
	p := f.get("/export?queue=orders&format=csv")
	rows, err := csv.NewReader(strings.NewReader(p.text)).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("got %d rows, %v, want 4:\n%s", len(rows), err, p.text)
	}
	last := len(rows[0]) - 1
	if rows[1][0] != "'=1+1" || rows[1][5] != "'-2+3 \"quoted\",\nline" || rows[1][last] != "'@SUM(A1)" || rows[2][last] != "base64:/w==" || rows[3][last] != "-12.5" {
		t.Errorf("got %q", rows)
	}
	if !strings.HasPrefix(p.header.Get("Content-Disposition"), "attachment") || !strings.Contains(p.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("got %v, want a download", p.header)
	}
	lines := f.get("/export?queue=orders&format=jsonl&id=m2")
	if n := strings.Count(lines.text, "\n"); n != 1 || !strings.Contains(lines.text, `"id":"m2"`) {
		t.Errorf("got %d lines, want that of m2:\n%s", n, lines.text)
	}
}

// stuck is a client that reads nothing.
type stuck struct {
	*httptest.ResponseRecorder
	deadline time.Time
	reached  chan struct{} // is closed when something is sent
	once     sync.Once
}

func (s *stuck) SetWriteDeadline(at time.Time) error {
	s.deadline = at
	return nil
}

func (s *stuck) Write([]byte) (int, error) {
	s.once.Do(func() { close(s.reached) })
	time.Sleep(time.Until(s.deadline)) // virtual time
	return 0, os.ErrDeadlineExceeded
}

// A viewer whose browser reads nothing keeps nobody from a failed queue: not at all if the export is small, and otherwise for some seconds.
func TestExportToStuckClient(t *testing.T) {
	for _, size := range []int{100 << 10, 5 << 20} {
		for _, format := range []string{"csv", "jsonl"} {
			t.Run(fmt.Sprint(size, " bytes as ", format), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := open(t)
					f.fail("orders", rehop.Message{ID: "m1", Body: bytes.Repeat([]byte("x"), size)})
					client := &stuck{ResponseRecorder: httptest.NewRecorder(), reached: make(chan struct{})}
					ended := make(chan any)
					go func() {
						defer func() { ended <- recover() }()
						r := httptest.NewRequest("GET", "/export?queue=orders&format="+format, nil)
						r.Host = "localhost"
						r.Header.Set("Test-Role", "viewer")
						f.console.ServeHTTP(client, r)
					}()
					<-client.reached
					if client.deadline.IsZero() {
						t.Fatal("the client may take as long as it likes")
					}
					if size > console.MaxAhead {
						if got := <-ended; got != http.ErrAbortHandler {
							t.Errorf("got %v, want that the download is aborted", got)
						}
					}
					f.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {"replay-all"}}).has(t, `id="count">1<`)
					if size <= console.MaxAhead {
						<-ended
					}
				})
			})
		}
	}
}

// Messages with the same id, or without one, have pages, and the number of those that an action takes is shown.
func TestSameIDs(t *testing.T) {
	f := open(t)
	f.fail("orders", rehop.Message{ID: "twin", Body: []byte("first")}, rehop.Message{ID: "twin", Body: []byte("second")})
	f.get("/message?queue=orders&id=twin").has(t, "2 messages have this id", "first")
	f.get("/message?queue=orders&id=twin&number=2").has(t, "second")
	if p := f.get("/body?queue=orders&id=twin&number=2"); p.text != "second" {
		t.Errorf("got %q, want the second body", p.text)
	}
	if p := do(t, f.console, "GET", "/message?queue=orders&id=twin&number=3", nil); p.status != 404 {
		t.Errorf("got %d, want 404", p.status)
	}
	f.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {"replay-selected"}, "pick": {"twin"}}).has(t, `id="count">2<`)
}

// A console whose broker is out of reach reports that, and what to do.
func TestNoBroker(t *testing.T) {
	c := newConsole(t)
	for _, target := range []string{"/", "/queues", "/failed?queue=q", "/topology"} {
		if p := do(t, c, "GET", target, nil); p.status != http.StatusBadGateway || !strings.Contains(p.text, "there is none in this test") || !strings.Contains(p.text, "Check that it is running") {
			t.Errorf("%s: got %d %s, want 502 and the reason", target, p.status, p.text)
		}
	}
	closed := newConsole(t, func(o *console.Options) { o.Base = "/c" })
	closed.Close()
	if p := do(t, closed, "POST", "/replay", url.Values{"where": {"queue=q"}, "count": {"1"}}); p.status != http.StatusServiceUnavailable {
		t.Errorf("after Close: got %d %s, want 503", p.status, p.text)
	}
}
