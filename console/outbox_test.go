package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/outbox"
)

// shelf is an outbox in memory.
type shelf struct {
	entries []outbox.Entry
	retried []outbox.RowID
	broken  error
}

func (s *shelf) Backlog(context.Context) (outbox.Backlog, error) {
	return outbox.Backlog{Ready: 7, SetAside: len(s.entries), Oldest: 90 * time.Second}, s.broken
}

func (s *shelf) Summaries(_ context.Context, state outbox.State, after outbox.RowID, limit int) (found []outbox.Entry, err error) {
	for _, e := range s.entries {
		if e.State == state && e.Row.Number > after.Number && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, s.broken
}

func (s *shelf) Retry(_ context.Context, rows ...outbox.RowID) (n int, err error) {
	for i := range s.entries {
		if e := &s.entries[i]; e.State == outbox.StateSetAside && slices.Contains(rows, e.Row) {
			e.State = outbox.StateReady
			s.retried = append(s.retried, e.Row)
			n++
		}
	}
	return n, s.broken
}

func (s *shelf) Discard(_ context.Context, rows ...outbox.RowID) (int, error) {
	before := len(s.entries)
	s.entries = slices.DeleteFunc(s.entries, func(e outbox.Entry) bool { return slices.Contains(rows, e.Row) })
	return before - len(s.entries), s.broken
}

// Outboxes are shown with their backlog, and messages that were set aside can be published again or discarded.
func TestOutboxes(t *testing.T) {
	orders, dead := &shelf{}, &shelf{broken: errors.New("the database is away")}
	for n := range 150 {
		orders.entries = append(orders.entries, outbox.Entry{Row: outbox.RowID{Number: int64(n + 1), Nonce: 7}, State: outbox.StateSetAside, Attempts: 5, Error: "no queue for <b>" + fmt.Sprint(n),
			Message: rehop.Message{ID: fmt.Sprint("m-", n), Exchange: "shop", Key: "order.created", Body: []byte("{}")}})
	}
	f := open(t, func(o *console.Options) {
		o.Outboxes = func(context.Context) ([]console.Outbox, error) {
			return []console.Outbox{{Name: "orders", Inspector: orders}, {Name: "dead", Inspector: dead}}, nil
		}
	})
	f.get("/outbox").has(t, "orders", "150", "1m30s", "dead", "the database is away")
	f.get("/").has(t, `id="sum-outbox">7<`, `<a href="outbox?name=orders"><bdi>orders</bdi></a>: <span id="n0">the oldest message of the outbox has waited for 1m30s`, `<span id="n1">150 messages of the outbox cannot be published`, `<bdi>dead</bdi></a>: <span id="n2">the backlog of the outbox could not be read`)
	first := f.get("/outbox?name=orders")
	first.has(t, "m-0", "m-99", "order.created", "no queue for &lt;b&gt;0", "Next")
	f.get("/outbox?name=orders&state=set+aside&after="+url.QueryEscape(orders.entries[99].Row.String())).has(t, "m-100", "m-149")
	f.get("/outbox?name=orders&state=ready").has(t, "No message is ready")
	f.get("/outbox?name=orders&state=delayed").lacks(t, "Publish selected", "Discard selected")
	pick := func(n int) string { return orders.entries[n].Row.String() }
	where := url.Values{"name": {"orders"}, "state": {"set aside"}}.Encode()
	f.post("/outbox", url.Values{"where": {where}, "do": {"retry"}, "pick": {pick(3), pick(4)}}).has(t, "2 of 2 selected messages are published as soon as possible.")
	if want := []outbox.RowID{{Number: 4, Nonce: 7}, {Number: 5, Nonce: 7}}; !slices.Equal(orders.retried, want) {
		t.Errorf("got %v tried again, want %v", orders.retried, want)
	}
	// The same form once more, or that of another operator's old page.
	f.post("/outbox", url.Values{"where": {where}, "do": {"retry"}, "pick": {pick(4), pick(149), pick(3)}}).has(t, "1 of 3 selected messages are published as soon as possible. The others are no longer set aside.")
	f.get("/outbox?name=orders&state=ready").has(t, "m-3", "m-4", "m-149")
	f.get("/outbox?name=orders&state=ready").lacks(t, "Publish selected", "Discard selected", `name="pick"`)
	var tooMany []string
	for n := range 101 {
		tooMany = append(tooMany, pick(n))
	}
	for name, c := range map[string]struct {
		form   url.Values
		status int
	}{
		"nothing is selected":    {url.Values{"where": {where}, "do": {"retry"}}, http.StatusBadRequest},
		"too many are selected":  {url.Values{"where": {where}, "do": {"retry"}, "pick": tooMany}, http.StatusBadRequest},
		"it is not confirmed":    {url.Values{"where": {where}, "do": {"discard"}, "pick": {pick(0)}}, http.StatusBadRequest},
		"the row cannot be read": {url.Values{"where": {where}, "do": {"retry"}, "pick": {"x"}}, http.StatusBadRequest},
		"there is no action":     {url.Values{"where": {where}, "do": {"publish"}, "pick": {pick(0)}}, http.StatusBadRequest},
		"there is no outbox":     {url.Values{"where": {"name=none"}, "do": {"retry"}, "pick": {pick(0)}}, http.StatusNotFound},
		"the database is away":   {url.Values{"where": {"name=dead"}, "do": {"retry"}, "pick": {pick(0)}}, http.StatusBadGateway},
	} {
		if p := do(t, f.console, "POST", "/outbox", c.form); p.status != c.status {
			t.Errorf("%s: got %d, want %d\n%s", name, p.status, c.status, p.text)
		}
	}
	if len(orders.entries) != 150 {
		t.Errorf("got %d entries, want 150: nothing was discarded", len(orders.entries))
	}
	f.post("/outbox", url.Values{"where": {where}, "do": {"discard"}, "sure": {"yes"}, "pick": {pick(0)}}).has(t, "1 of 1 selected messages are discarded.")
	if len(orders.entries) != 149 {
		t.Errorf("got %d entries, want 149", len(orders.entries))
	}
	for target, status := range map[string]int{"/outbox?name=none": 404, "/outbox?name=orders&state=odd": 400, "/outbox?name=orders&after=x": 400, "/outbox?name=dead": 502} {
		if p := do(t, f.console, "GET", target, nil); p.status != status {
			t.Errorf("GET %s: got %d, want %d", target, p.status, status)
		}
	}
}

// away is an outbox whose database does not answer.
type away struct{ shelf }

func (*away) Backlog(ctx context.Context) (outbox.Backlog, error) {
	<-ctx.Done()
	return outbox.Backlog{}, ctx.Err()
}

// asked is an outbox that answers as long as its request may ask.
type asked struct{ shelf }

func (*asked) Backlog(ctx context.Context) (outbox.Backlog, error) {
	return outbox.Backlog{Ready: 4711}, ctx.Err()
}

// A database that does not answer affects no other outbox.
func TestOutboxAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConsole(t, func(o *console.Options) {
			o.Outboxes = func(context.Context) (all []console.Outbox, err error) {
				for n := range 20 {
					all = append(all, console.Outbox{Name: fmt.Sprint("away-", n), Inspector: &away{}})
				}
				return append(all, console.Outbox{Name: "orders", Inspector: &asked{}}), nil
			}
		})
		p := do(t, c, "GET", "/outbox", nil)
		p.has(t, "4,711")
		if n := strings.Count(p.text, "deadline exceeded"); n != 20 {
			t.Errorf("%d outboxes are shown as broken, want 20:\n%s", n, p.text)
		}
	})
}

// waits is an outbox that answers when it is released.
type waits struct {
	shelf
	reading atomic.Int64
	release chan struct{}
}

func (w *waits) Summaries(context.Context, outbox.State, outbox.RowID, int) ([]outbox.Entry, error) {
	w.reading.Add(1)
	<-w.release
	return nil, nil
}

// Only some requests at a time read an outbox. The others wait, and are refused when they have waited too long.
func TestOutboxPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		box := &waits{release: make(chan struct{})}
		c := newConsole(t, func(o *console.Options) {
			o.Outboxes = func(context.Context) ([]console.Outbox, error) {
				return []console.Outbox{{Name: "orders", Inspector: box}}, nil
			}
		})
		results := make(chan int, 50)
		for range cap(results) {
			go func() { results <- do(t, c, "GET", "/outbox?name=orders", nil).status }()
		}
		synctest.Wait()
		if n := box.reading.Load(); n != console.MaxWorking {
			t.Errorf("%d requests read the outbox at the same time, want %d", n, console.MaxWorking)
		}
		for range cap(results) - console.MaxWorking {
			if got := <-results; got != http.StatusServiceUnavailable {
				t.Errorf("got %d, want 503", got)
			}
		}
		close(box.release)
		for range console.MaxWorking {
			if got := <-results; got != http.StatusOK {
				t.Errorf("got %d, want 200", got)
			}
		}
	})
}
