//go:build !race

package browsing

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// notPages are routes that show no page of their own.
var notPages = map[string]string{
	"GET provider": "leads to the provider", "GET callback": "leads to the page for which the login began", "POST preferences": "leads back", "POST logout": "leads to the login", "GET events": "a stream", "GET body": "a download", "GET export": "a download", "GET found.body": "a download", "GET found.export": "a download",
	"POST group": "leads to the group", "POST start": "leads to the run", "POST resend": "leads to the run", "POST run": "leads to the run", "GET topology.svg": "a picture, which the page of the topology has",
}

// long are names and texts without a place at which a line could be broken.
var long = strings.Repeat("wide", 60)

// fillAll has something on every page: messages that failed, wait and are held, in queues with short and long names.
func (p *place) fillAll() {
	p.t.Helper()
	p.subscribe("orders")
	p.subscribe("long." + long[:120])
	kit.Subscribe(p.t, p.client, rehop.Subscriber{Queue: "mail", Retry: rehop.Steps(time.Hour), Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return errors.New("greylisted: try later") })})
	kit.Subscribe(p.t, p.client, rehop.Subscriber{Queue: "parcels", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(p.handle), OrderBy: func(*rehop.Delivery) string { return "k" }, AfterFail: rehop.Halt})
	p.fail(failing("orders", "order-1", "charge card: connection refused", `{"order":1,"items":[{"sku":"a-1","n":2}],"note":"`+long+`"}`),
		failing("orders", "order-3", "charge card: timeout", `{"order":3}`),
		failing("orders", "order-2", "charge card: connection refused", `{"order":2}`),
		failing("orders", long, long, "not JSON, and \u202e "+long),
		failing("orders", "binary", "decode: invalid character", "\x00\xff"),
		failing("long."+long[:120], "l1", "short", `{}`),
		failing("parcels", "parcel-1", "no such address", `{}`))
	kit.Publish(p.t, p.client, failing("parcels", "parcel-2", "no such address", `{}`), rehop.Message{Key: "mail", ID: "mail-1"})
	if _, err := p.outbox.DB.ExecContext(p.t.Context(), "INSERT INTO rehop_outbox (nonce, state, shard, due, created, size, attempts, message_id, exchange, routing_key, order_key, properties, headers, body, error)"+
		" VALUES (7, 3, 0, 0, 0, 2, 5, 'b1', 'shop', ?, '', '{}', '', '{}', ?)", long[:120], "no queue is bound: "+long); err != nil {
		p.t.Fatal(err)
	}
	lab.Eventually(p.t, kit.Limit, "a message waits for its next attempt", func() bool {
		o, err := p.admin.Queues(p.t.Context())
		return err == nil && slices.ContainsFunc(o.DelayQueues, func(q admin.QueueSize) bool { return q.Messages > 0 })
	})
}

// found opens the page of a message in the index.
func (b *tab) found(id string) {
	b.t.Helper()
	b.open("search?q=" + url.QueryEscape("id:"+id))
	b.click("table.list a")
}

// Every page, in light and dark, wide and narrow, is accessible and does not scroll sideways. A new route without a visit here fails the test.
func TestPages(t *testing.T) {
	p := newPlace(t)
	p.fillAll()
	browser := newBrowser(t)
	b, a := p.tab(browser), newAxe(t)
	stranger := newTab(t, browser, p.base) // who is not logged in
	open := func(path string) func() *tab { return func() *tab { b.open(path); return b } }
	from := func(path string, selectors ...string) func() *tab {
		return func() *tab {
			b.open(path)
			for _, s := range selectors {
				b.click(s)
			}
			return b
		}
	}
	message := func(id string, selectors ...string) func() *tab {
		return func() *tab {
			b.found(id)
			for _, s := range selectors {
				b.click(s)
			}
			return b
		}
	}
	preview := func() *tab {
		message("order-1", "a[href^=edit]")()
		b.fill("[name=body]", `{"order":1,"items":[]}`)
		b.click("main button")
		return b
	}
	visits := map[string]func() *tab{
		"GET login": func() *tab { stranger.open("login"); return stranger },
		"POST login": func() *tab {
			stranger.open("login")
			stranger.write("[name=password]", "wrong")
			if status := stranger.load(typing(kb.Enter)); status != 401 {
				t.Errorf("a wrong password: got status %d, want 401", status)
			}
			return stranger
		},
		"GET ": open(""), "GET queues": open("queues"), "GET queue": open("queue?name=orders"), "GET consumers": open("consumers"), "GET failed": open("failed?queue=orders"), "GET message": open("message?queue=orders&id=order-1"),
		"GET groups": open("groups"), "GET group": from("groups", "table.list a"), "GET search": open("search"), "GET found": message("order-1"), "GET edit": message("order-1", "a[href^=edit]"), "POST edit": preview,
		"POST plan": message("order-1", "a[href^=group]", "[value=canary]"), "GET runs": open("runs"), "GET audit": open("audit?verify=1"), "GET waiting": open("waiting"), "GET held": open("held?queue=parcels"),
		"GET topology": open("topology"), "GET doctor": open("doctor?examine=1"), "GET settings": open("settings"), "GET shortcuts": open("shortcuts"), "POST sessions": from("settings", "main button"),
		"POST confirm": from("message?queue=orders&id=order-1", "[value=replay-selected]"),
		"POST replay":  from("message?queue=orders&id=order-2", "[value=replay-selected]", "main form button"),
		"POST discard": from("message?queue=orders&id=binary", "[value=discard-selected]", "main form button"),
		"POST skip":    from("held?queue=parcels", "main form button"),
		"GET outbox":   open("outbox?name=shop"),
		"POST outbox": func() *tab {
			b.open("outbox?name=shop")
			b.tick("[name=pick]")
			b.click("[value=retry]")
			return b
		},
		"GET run": message("order-3", "[value=replay]", "main form button"),
	}
	all := routes(t)
	// Runs first, so that lists have some; what ends messages last.
	order := map[string]int{"GET run": -2, "GET audit": 1, "POST replay": 2, "POST discard": 2, "POST skip": 2, "POST outbox": 2}
	slices.SortStableFunc(all, func(a, b string) int { return order[a] - order[b] })
	for _, route := range all {
		if _, isPage := visits[route]; isPage == (notPages[route] != "") {
			t.Errorf("the route %q needs a visit here, or a reason in notPages why it shows no page", route)
		}
	}
	for route := range visits {
		if !slices.Contains(all, route) {
			t.Errorf("there is no route %q any more", route)
		}
	}
	if t.Failed() {
		return
	}
	for _, route := range all {
		visit, isPage := visits[route]
		if !isPage {
			continue
		}
		shown := visit()
		_, path, _ := strings.Cut(route, " ")
		if at, _, _ := strings.Cut(shown.name, "?"); at != path {
			t.Errorf("%s: got the page %s", route, shown.name)
		}
		shown.name = route
		a.examine(shown)
	}
	for _, path := range []string{"groups?state=ignored", "search?q=" + long, "search?q=id:" + url.QueryEscape(long[:60]+"*"), "failed?queue=orders&kind=permanent&id=a&header=tenant%3Dacme", "waiting?step=rehop.step.1h", "held", "outbox", "doctor",
		"queue?name=long." + long[:120], "failed?queue=long." + long[:120], "message?queue=orders&view=hex&id=" + long} {
		b.open(path)
		a.examine(b)
	}
	for path, status := range map[string]int{"none": 404, "none/below": 404, "search?q=colour:" + long: 400, "failed?queue=" + long: 404, "failed?queue=orders&since=x": 400} {
		if got := b.load(chromedp.Navigate(p.base + path)); got != status {
			t.Errorf("%s: got status %d, want %d", path, got, status)
		}
		a.examine(b)
	}
	for _, used := range []*tab{b, stranger} {
		used.open("login")
		t.Logf("%d requests", len(used.clean()))
	}
}
