package console_test

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
)

// hostile are texts that a stranger can send: markup, attributes, direction of writing, bytes that are not UTF-8, control characters.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `<div hx-get="/replay" hx-trigger="load">`, `</pre></main><form action=discard>`,
	"user\u202egnp.exe", "a\u2066b\u2069", "zero\u200bwidth", "\xff\xfe\xc0\xaf", "\x1b[2J\x00\x07", "{{.}}{{template \"x\"}}", "javascript:alert(1)", "&lt;b&gt;", "9223372036854775807", "-->]]>",
}

// safe fails the test if a page has a hostile text as more than text.
func (p page) safe(t *testing.T, where string) {
	t.Helper()
	if !utf8.ValidString(p.text) {
		t.Errorf("%s: the page is not UTF-8", where)
	}
	for _, bad := range []string{"<script>", "<img src=x", "<div hx-", "<form action=discard", "\u202e", "\u2066", "\u2069", "\u200b", "\x1b", "\x00", "\x07", `href="javascript`, "onmouseover='"} {
		if strings.Contains(p.text, bad) {
			t.Errorf("%s: the page has %q", where, bad)
		}
	}
}

// Texts of strangers are shown as text wherever they are, and survive viewing, downloading and replaying byte by byte.
func TestHostileTexts(t *testing.T) {
	f := open(t)
	all := strings.Join(hostile, "\n")
	got := make(chan *rehop.Delivery, 10)
	const queue = `q"><script>alert(1)</script>'&%2F?#` + "\u202e"
	_, err := f.Client.Subscribe(t.Context(), rehop.Subscriber{Queue: queue, Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.Replays > 0 {
			got <- d
			return nil
		}
		return errors.New(all)
	})})
	if err != nil {
		t.Fatal(err)
	}
	headers := map[string]any{"large": int64(9223372036854775807), "nested": map[string]any{"<script>": []any{"\u202e", []byte{0xff}}}}
	for _, text := range hostile {
		if utf8.ValidString(text) {
			headers[text] = text
		}
	}
	headers["bytes"] = []byte(all)
	ids := []string{"<script>alert(1)</script>\u202e", "a&b=c+d%41"}
	for _, id := range ids {
		f.publish(queue, rehop.Message{ID: id, Body: []byte(all), Headers: headers, Type: "<script>", CorrelationID: "\u202e", AppID: `"><script>`})
	}
	f.AwaitFailed(queue, len(ids))
	q := url.QueryEscape(queue)
	for _, target := range []string{"/", "/queues", "/queue?name=" + q, "/failed?queue=" + q, "/failed?queue=" + q + "&text=%3Cscript%3E", "/topology", "/topology.svg", "/doctor?examine=1", "/waiting"} {
		f.get(target).safe(t, target)
	}
	if p := f.get("/failed?queue=" + q); true {
		p.has(t, "all 2 that match", "U+202E", "&lt;script&gt;alert(1)")
	}
	for _, bad := range []string{"/failed?queue=%3Cscript%3E%00%E2%80%AE", "/nothing%3Cscript%3E", "/failed?queue=" + q + "&kind=%3Cscript%3E%E2%80%AE", "/waiting?step=%3Cscript%3E", "/held?queue=%3Cscript%3E"} {
		p := do(t, f.console, "GET", bad, nil)
		if p.safe(t, bad); p.status < 400 || p.status >= 500 {
			t.Errorf("%s: got %d, want an error of the client", bad, p.status)
		}
	}
	for _, id := range ids {
		link := "queue=" + q + "&id=" + url.QueryEscape(id)
		for _, view := range []string{"", "&view=hex", "&view=text"} {
			f.get("/message?"+link+view).safe(t, link+view)
		}
		f.get("/message?"+link).has(t, "9223372036854775807", "int64")
		if body := f.get("/body?" + link).text; body != all {
			t.Errorf("the download has %q, want %q", body, all)
		}
		asked := f.post("/confirm", url.Values{"where": {"queue=" + q}, "do": {"replay-selected"}, "pick": {url.QueryEscape(id)}})
		asked.safe(t, "confirm")
		asked.has(t, `id="count">1<`)
		done := f.post("/replay", asked.confirmed(t, nil))
		done.safe(t, "replay")
		done.has(t, `id="done">1<`)
		d := <-got
		if string(d.Body) != all || d.ID != id || d.Headers["large"] != int64(9223372036854775807) || !slices.Equal(d.Headers["bytes"].([]byte), []byte(all)) {
			t.Errorf("replayed: got id %q, body %q, headers %v", d.ID, d.Body, slices.Sorted(maps.Keys(d.Headers)))
		}
	}
}

// A message of 10 MB has a small page, and a whole download.
func TestLargeMessage(t *testing.T) {
	f := open(t)
	body := []byte(`{"text":"` + strings.Repeat("<b>\u202e", 10<<20/6) + `"}`)
	f.fail("orders", rehop.Message{ID: "m1", Body: body}, rehop.Message{ID: "m2", Body: []byte(strings.Repeat("\x00\xff", 5<<20))})
	for id, want := range map[string]string{"m1": "Only the first 64 KiB are shown", "m2": "Only the first 8,192 bytes are shown"} {
		p := f.get("/message?queue=orders&id=" + id)
		if p.has(t, want, "Download it, or use export"); len(p.text) > 2<<20 {
			t.Errorf("%s: the page has %d bytes", id, len(p.text))
		}
	}
	if got := f.get("/body?queue=orders&id=m1").text; got != string(body) {
		t.Errorf("the download has %d bytes, want the %d of the body", len(got), len(body))
	}
	if p := f.get("/failed?queue=orders"); len(p.text) > 100<<10 {
		t.Errorf("the list has %d bytes", len(p.text))
	}
}

// An id that is not UTF-8 cannot be in a form unchanged, and is found anyway.
func TestIDsOfAnyBytes(t *testing.T) {
	f := open(t)
	f.subscribe("orders")
	f.publish("orders", rehop.Message{ID: "plain"})
	f.AwaitFailed("orders", 1)
	const id = "\xff\x00 &'\""
	line := `{"id":"x","queue":"orders","exchange":"","key":"orders","body":"aGk=","attempts":1,"bytes":{"id":"/wAgJici"}}`
	if _, err := f.admin.Import(t.Context(), strings.NewReader(line)); err != nil {
		t.Fatal(err)
	}
	link := "queue=orders&id=" + url.QueryEscape(id)
	f.get("/failed?queue=orders").has(t, `\xff U+0000`, url.Values{"id": {id}}.Encode())
	p := f.get("/message?" + link)
	p.has(t, "hi", "not UTF-8, which JSON cannot represent")
	asked := f.post("/confirm", url.Values{"where": {p.hidden(t, "where")}, "do": {"discard-selected"}, "pick": {p.hidden(t, "pick")}})
	f.post("/discard", url.Values{"where": {asked.hidden(t, "where")}, "count": {"1"}}).has(t, `id="done">1<`)
	left, err := f.admin.Failed(t.Context(), "orders", 10, admin.Filter{})
	if err != nil || len(left) != 1 || left[0].ID != "plain" {
		t.Errorf("left: got %v, %v, want the other message", left, err)
	}
}
