//go:build !race

package browsing

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chromedp/chromedp"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
)

// marker is in all that must not be run, loaded or become an element.
const marker = "pwned"

// hostile are texts that a stranger can send. If a browser takes one of them for more than text, it runs, loads or creates something.
var hostile = []string{
	`<script>window.pwned=1;alert(1)</script>`, `"><img src=pwned onerror=window.pwned=1>`, `' onmouseover='window.pwned=1' autofocus onfocus='window.pwned=1`, `<svg onload=window.pwned=1>`,
	`<pwned-tag></pwned-tag>`, `</textarea></pre></main><form action=pwned><button autofocus>`, `<meta http-equiv=refresh content="0;url=pwned">`, `<base href=//pwned.invalid>`, `<style>@import 'pwned'</style>`,
	`<div hx-get=pwned hx-trigger=load hx-swap=outerHTML hx-on:load=window.pwned=1 data-hx-post=pwned>`, `<iframe srcdoc="<script>parent.pwned=1</script>">`, `javascript:window.pwned=1`, `{{.}}${window.pwned=1}`,
	"user\u202egnp.exe\u202c", "a\u2066b\u2069\u200f", "zero\u200bwidth\ufeff", "\x1b[2J\x00\x07", "&lt;b&gt;&#x202e;", "-->]]>", "⟦U+0041⟧", "9223372036854775807", "\ufffd",
}

// unharmed fails the test if something of the hostile texts was more than text on the page.
func (b *tab) unharmed() {
	b.t.Helper()
	bad := eval[[]string](b, `(() => {
		const found = [];
		if (window.pwned) found.push("a script was run");
		for (const e of document.querySelectorAll("*")) {
			if (/pwned/i.test(e.tagName) || ["IFRAME", "STYLE", "BASE"].includes(e.tagName) && !(e.ownerSVGElement)) found.push("the element " + e.outerHTML.slice(0, 100));
			for (const a of e.attributes) if (/^(on|hx-|data-hx)/.test(a.name) || /^(style|srcdoc|autofocus)$/.test(a.name)) found.push("the attribute " + a.name + " of " + e.tagName);
			for (const name of ["href", "src", "action", "formaction"]) if (e[name] && typeof e[name] === "string" && !e[name].startsWith(location.origin + "/")) found.push("the address " + e[name]);
		}
		const text = document.documentElement.textContent;
		const invisible = text.match(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/);
		if (invisible) found.push("the character U+" + invisible[0].codePointAt(0).toString(16) + " near " + JSON.stringify(text.slice(Math.max(0, invisible.index - 20), invisible.index + 20)));
		return found })()`)
	for _, what := range bad {
		b.t.Errorf("%s: %s", b.name, what)
	}
}

// Hostile texts in bodies, headers, errors and names are text on all pages: nothing is run or loaded, and no byte is lost by viewing, editing and
// replaying.
func TestHostileTexts(t *testing.T) {
	p := newPlace(t)
	text := strings.Join(hostile, " ")
	queue := `q"><script>window.pwned=1</script>'&%2F?#` + "\u202e" + `<img src=pwned onerror=window.pwned=1>`
	kit.Subscribe(t, p.client, rehop.Subscriber{Queue: queue, Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.Replays == 0 && d.Headers["edited"] == nil {
			return errors.New(text)
		}
		p.handled <- d
		return nil
	})})
	headers := map[string]any{"large": int64(1<<63 - 1), "small": int8(-3), "float": 1.5, "bytes": []byte("\xff\xfe\x00" + text), "nested": map[string]any{"<pwned-tag>": []any{"\u202e", []byte{0xc0, 0xaf}}}}
	for _, h := range hostile {
		headers[h] = h
	}
	body := []byte("{\"n\":9223372036854775807,\r\n\t\"text\":\"" + strings.NewReplacer(`"`, `'`, "\x1b", "", "\x00", "", "\x07", "").Replace(text) + "\"}\r\r\n ")
	id := hostile[1] + "\u202e"
	message := func(id string, body []byte) rehop.Message {
		return rehop.Message{Key: queue, ID: id, Body: body, Headers: headers, ContentType: "application/json" + hostile[1], Type: hostile[0], CorrelationID: hostile[9], AppID: hostile[1], ReplyTo: hostile[3]}
	}
	p.fail(message(id, body), message("raw", []byte("\xff\xfe"+text)), message("text", []byte(text)))
	b := p.tab(newBrowser(t))

	seen := func() {
		t.Helper()
		b.unharmed()
		b.show(360, "light")
		if wide := sideways(b); len(wide) > 0 {
			t.Errorf("%s: the page scrolls sideways because of %s", b.name, wide)
		}
	}
	q := url.QueryEscape(queue)
	for _, path := range []string{"", "queues", "queue?name=" + q, "consumers", "consumers?queue=" + q, "failed?queue=" + q, "failed?queue=" + q + "&text=" + url.QueryEscape(hostile[0]), "message?queue=" + q + "&id=" + url.QueryEscape(id), "message?view=text&queue=" + q + "&id=raw",
		"message?view=hex&queue=" + q + "&id=text", "topology", "doctor?examine=1", "waiting", "held", "settings", "groups", "groups?in=" + url.QueryEscape(q), "search?q=" + url.QueryEscape(`"`+hostile[0]+`"`), "search?q=pwned"} {
		b.open(path)
		seen()
	}
	for _, path := range []string{"failed?queue=%3Cscript%3Ewindow.pwned=1%3C/script%3E", "search?q=" + url.QueryEscape(hostile[1]+":x"), hostile[4], "waiting?step=" + url.QueryEscape(hostile[1])} {
		if status := b.load(chromedp.Navigate(p.base + path)); status < 400 || status >= 500 {
			t.Errorf("%s: got status %d, want an error", path, status)
		}
		seen()
	}
	b.open("search?q=pwned")
	b.click("table.list a[href^=group]")
	seen()
	b.fill("[name=assignee]", hostile[1])
	b.fill("[name=note]", strings.ReplaceAll(hostile[0]+hostile[5], "\x00", ""))
	b.click("form[action=group] button")
	seen()
	if b.found("raw"); !strings.Contains(b.text("main"), "not UTF-8, which a browser cannot edit") {
		t.Errorf("a body that is not UTF-8: %s", b.text("main"))
	}
	seen()
	b.open("message?queue=" + q + "&id=raw")
	b.click("[value=replay-selected]")
	seen()
	b.click("form[action=replay] button")
	seen()
	if d := kit.Receive(t, p.handled, "the replayed message"); d.ID != "raw" || !bytes.Equal(d.Body, []byte("\xff\xfe"+text)) || !sameHeaders(d.Headers, headers) {
		t.Errorf("replayed: got id %q, body %q, headers %#v", d.ID, d.Body, d.Headers)
	}

	for want, c := range map[string]struct {
		id   string
		body []byte
	}{"JSON": {id, body}, "text": {"text", []byte(text)}} {
		b.open("search?q=pwned")
		shown := strings.ReplaceAll(c.id, "\u202e", "U+202E")
		found := eval[string](b, `[...document.querySelectorAll("table.list tbody a[href^=found]")].find((a) => a.textContent === %s)?.getAttribute("href") ?? ""`, quoted(shown))
		if found == "" {
			t.Fatalf("%s: the search does not have %q: %s", want, shown, b.text("main"))
		}
		b.open(found)
		seen()
		if c.id == id && !strings.Contains(b.text("main"), "9223372036854775807") {
			t.Error("the page does not have the number 2^63-1")
		}
		b.click("a[href^=edit]")
		seen()
		b.click("form[action=edit] button")
		seen()
		if n := strings.Count(b.text("main"), "Not changed."); n != 2 {
			t.Errorf("%s: a form that was not changed has changes:\n%s", want, b.text("main"))
		}
		b.back(-1)
		b.tick("[name=headers]")
		eval[bool](b, `(() => { const e = document.querySelector("[name=headers]"); e.setSelectionRange(1, 1); return true })()`)
		b.press(`"edited": true,`)
		b.click("form[action=edit] button")
		seen()
		if n := strings.Count(b.text("main"), "Not changed."); n != 1 {
			t.Errorf("%s: the preview has %d parts that are not changed, want the body:\n%s", want, n, b.text("main"))
		}
		b.click("form[action=resend] button")
		seen()
		d := kit.Receive(t, p.handled, "the edited message")
		edited := maps.Clone(headers)
		edited["edited"] = true
		if !bytes.Equal(d.Body, c.body) || !sameHeaders(d.Headers, edited) {
			t.Errorf("%s: the edited message is %q, %#v, want %q, %#v", want, d.Body, d.Headers, c.body, edited)
		}
	}
	for _, path := range []string{"audit?verify=1", "runs"} {
		b.open(path)
		seen()
	}
	for _, r := range b.clean() {
		if u, err := url.Parse(r); err != nil || strings.Contains(u.Path, marker) && !strings.HasPrefix(r, "%3C") {
			t.Errorf("a text has caused the request %s", r)
		}
	}
}

// sameHeaders compares what a subscriber received with what was sent. The library adds the trace.
func sameHeaders(got, want map[string]any) bool {
	got = maps.Clone(got)
	delete(got, "traceparent")
	return reflect.DeepEqual(got, want)
}

// A body of 10 MB has a page that the browser can show, a download that has every byte, and can be replayed.
func TestLargeMessage(t *testing.T) {
	p := newPlace(t)
	p.subscribe("orders")
	body := []byte(`{"text":"` + strings.Repeat("<pwned-tag>\u202e", 10<<20/14) + `"}`)
	if !utf8.Valid(body) || len(body) < 10_000_000 {
		t.Fatalf("the body has %d bytes", len(body))
	}
	large := failing("orders", "large", "too large", "")
	large.Body = body
	p.fail(large)
	sum := sha256.Sum256(body)
	b := p.tab(newBrowser(t))
	for _, path := range []string{"message?queue=orders&id=large", "search?q=id:large"} {
		b.open(path)
		if strings.HasPrefix(path, "search") {
			b.click("table.list a")
		}
		b.unharmed()
		b.show(360, "dark")
		if wide := sideways(b); len(wide) > 0 {
			t.Errorf("%s: the page scrolls sideways because of %s", b.name, wide)
		}
		got := eval[string](b, `fetch([...document.querySelectorAll("main a")].find((a) => a.textContent === "Download").href).then((r) => r.arrayBuffer()).then((a) => crypto.subtle.digest("SHA-256", a))
			.then((d) => [...new Uint8Array(d)].map((n) => n.toString(16).padStart(2, "0")).join(""))`)
		if got != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: the download is not the body", b.name)
		}
	}
	if got := b.text("main"); !strings.Contains(got, "cannot be edited here") {
		t.Errorf("the page does not report that the message is too large to be edited")
	}
	b.click("[value=replay]")
	b.click("form[action=start] button")
	if d := kit.Receive(t, p.handled, "the large message"); !bytes.Equal(d.Body, body) {
		t.Errorf("the replayed message has %d bytes, want the %d of the body", len(d.Body), len(body))
	}
	b.clean()
}
