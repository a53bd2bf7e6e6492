package console_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/console"
)

// Every page can be made when the broker has nothing.
func TestPagesWithoutData(t *testing.T) {
	f := open(t)
	for target, want := range map[string]string{
		"/": "Nothing: no message has failed", "/queues": "There are no queues", "/waiting": "no delay queues", "/held": "None is known", "/consumers": "Nobody consumes",
		"/topology": "0 queues", "/topology.svg": "<svg", "/doctor": "Examine the broker", "/doctor?examine=1": "Examined in", "/settings": "operator", "/shortcuts": "Turn shortcuts off",
	} {
		f.get(target).has(t, want)
	}
	for target, status := range map[string]int{
		"/queue?name=none": 404, "/failed?queue=none": 404, "/message?queue=none&id=1": 404, "/export?queue=none&format=csv": 404, "/held?queue=none": 404,
		"/waiting?step=none": 404, "/queue": 400, "/failed": 400, "/message": 400, "/body?queue=q": 400, "/export": 400, "/nothing": 404, "/a/b": 404,
	} {
		if p := do(t, f.console, "GET", target, nil); p.status != status || !strings.Contains(p.text, "<h1>") {
			t.Errorf("GET %s: got %d %s, want %d and a page", target, p.status, p.text, status)
		}
	}
}

// Every page shows what there is.
func TestPagesWithData(t *testing.T) {
	f := open(t)
	f.fail("orders", rehop.Message{ID: "m1", Body: []byte(`{"total":9223372036854775807,"list":[1]}`), Headers: map[string]any{"tenant": "acme", "n": int64(7), "fail": "no such customer"}},
		rehop.Message{ID: "m2", Body: []byte{0xff, 0x00, 0x01}})
	f.get("/").has(t, "orders", "2 messages failed", `id="sum-failed">2<`, `id="sum-nodes">1 of 1<`)
	f.get("/queues").has(t, "orders", "failed?queue=orders")
	f.get("/queue?name=orders").has(t, "orders", "<b>2</b> failed", "x-queue-type", "consumers?queue=orders")
	f.get("/failed?queue=orders").has(t, "all 2 that match", "m1", "m2", "no such customer", "it failed", "permanent", "Replay selected", "the failed queue has 2 messages")
	f.get("/message?queue=orders&id=m1").has(t, "&#34;total&#34;: 9223372036854775807", "tenant", "acme", "int64", "no such customer", "rehop publish --lines", "curl --user", "http://localhost/api/exchanges/%2F/amq.default/publish", "shown as JSON")
	f.get("/message?queue=orders&id=m2").has(t, "ff 00 01", "shown as hex", "payload_encoding&#34;:&#34;base64")
	f.get("/message?queue=orders&id=m2&view=text").has(t, `\xff U+0000 U+0001`)
	if p := f.get("/body?queue=orders&id=m2"); p.text != "\xff\x00\x01" || p.header.Get("Content-Disposition") != "attachment; filename=message-m2.bin" {
		t.Errorf("got the body %q and %v", p.text, p.header)
	}
	f.get("/topology").has(t, "orders.failed")
	f.get("/topology.svg").has(t, "orders.failed")
	f.get("/doctor?examine=1").has(t, "Why it matters")
	f.get("/").has(t, " it found ")
}

// Consumers are shown with their clients, whoever they are, by queue.
func TestConsumers(t *testing.T) {
	f := open(t)
	f.subscribe("orders")
	f.get("/consumers").has(t, "all 1.", `href="queue?name=orders"`, "rehop-", "active")
	f.get("/consumers?queue=orders").has(t, "all 1.", "Consumers of all queues", "rehop-", "active")
	f.get("/consumers?queue=none").has(t, "all 0.", "Nobody consumes this queue")
}

// Filters choose the same messages as those of the commands, and the page has how many of how many are shown.
func TestFilters(t *testing.T) {
	f := open(t)
	f.subscribe("orders")
	for i := range 60 {
		m := rehop.Message{ID: fmt.Sprint("m", i), Key: "orders", Headers: map[string]any{"n": int64(i % 2)}}
		if i%3 == 0 {
			m.Headers["fail"] = "Refused by <bank>"
		}
		f.publish("orders", m)
	}
	f.AwaitFailed("orders", 60)
	for query, want := range map[string]string{
		"":                                       "the first 50 of more that match",
		"&count=1":                               "the first 50 of 60 that match",
		"&limit=200":                             "all 60 that match",
		"&kind=permanent":                        "all 20 that match",
		"&kind=permanent&kind=error&limit=200":   "all 60 that match",
		"&text=REFUSED":                          "all 20 that match",
		"&key=ord*&limit=200":                    "all 60 that match",
		"&key=other":                             "all 0 that match",
		"&id=m7":                                 "all 1 that match",
		"&id=m7&id=m8":                           "all 2 that match",
		"&header=n%3D1":                          "all 30 that match",
		"&header=n%3D1&header=fail%3Dx":          "all 0 that match",
		"&since=1h&limit=200":                    "all 60 that match",
		"&before=1h":                             "all 0 that match",
		"&since=2001-01-31&limit=200":            "all 60 that match",
		"&before=2001-01-31T15:04:05Z":           "all 0 that match",
		"&id=m7&header=&kind=&text=&key=&since=": "all 1 that match",
	} {
		f.get("/failed?queue=orders"+query).has(t, want, "the failed queue has 60 messages")
	}
	for query, want := range map[string]string{"&kind=x": "There is no kind", "&since=soon": "is not a time", "&header=x": "must be like name=value"} {
		if p := do(t, f.console, "GET", "/failed?queue=orders"+query, nil); p.status != 400 || !strings.Contains(p.text, want) {
			t.Errorf("%s: got %d %s, want 400 and %q", query, p.status, p.text, want)
		}
	}
}

// Viewers, and users of a console that is read-only, are offered nothing that they may not do.
func TestNothingToChange(t *testing.T) {
	f := open(t)
	f.fail("orders", rehop.Message{ID: "m1"})
	viewer := func(r *http.Request) { r.Header.Set("Test-Role", "viewer") }
	readOnly := newConsole(t, func(o *console.Options) { o.Admin, o.ReadOnly = f.admin, true })
	for _, target := range []string{"/failed?queue=orders", "/message?queue=orders&id=m1"} {
		do(t, f.console, "GET", target, nil, viewer).lacks(t, "Replay", "Discard")
		do(t, readOnly, "GET", target, nil).lacks(t, "Replay", "Discard")
		f.get(target).has(t, "Replay", "Discard")
	}
	form := url.Values{"where": {"queue=orders"}, "count": {"1"}, "do": {"discard-all"}}
	for _, target := range []string{"/confirm", "/replay", "/discard", "/skip", "/group", "/edit", "/resend", "/plan", "/start", "/run"} {
		if p := do(t, readOnly, "POST", target, form, func(r *http.Request) { r.Header.Set("Test-Role", "admin") }); p.status != 403 || !strings.Contains(p.text, "read-only") {
			t.Errorf("POST %s: got %d %s, want 403 because the console is read-only", target, p.status, p.text)
		}
	}
	if p := do(t, readOnly, "GET", "/edit?ref=x", nil); p.status != 403 {
		t.Errorf("GET /edit: got %d, want 403", p.status)
	}
	if n := f.failedNow("orders"); n != 1 {
		t.Errorf("got %d failed messages, want 1", n)
	}
}
