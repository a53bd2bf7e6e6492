// Package consoling tests the pages of package console as browsers and screen readers see them.
package consoling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/rehoptest"
)

// newConsole returns a console of an embedded broker, which has failed messages if full is true.
func newConsole(t *testing.T, full bool) http.Handler {
	t.Helper()
	var server *broker.Server
	b := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { server = s }))
	api, err := mgmt.Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(api)
	t.Cleanup(listening.Close)
	a, err := admin.Open(t.Context(), admin.Config{URL: b.Config().URL, Dial: server.Dial, Management: listening.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	if full {
		fill(t, b)
	}
	c, err := console.New(console.Options{Admin: a, Logger: slog.New(slog.DiscardHandler), Login: func(_ context.Context, name, _ string) (console.User, error) {
		if name != "ann" {
			return console.User{}, console.ErrLogin
		}
		return console.User{Name: name, Role: console.Admin}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fill makes messages fail, wait and be held back.
func fill(t *testing.T, b *rehoptest.Broker) {
	t.Helper()
	fails := rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		return errors.New("<b>it failed</b> & \"so on\"\nsecond line \u202e")
	})
	for _, s := range []rehop.Subscriber{
		{Queue: "orders", Retry: rehop.NoRetry(), Handler: fails},
		{Queue: "mail", Retry: rehop.Steps(1000000000), Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })},
		{Queue: "parcels", Retry: rehop.NoRetry(), Handler: fails, OrderBy: func(*rehop.Delivery) string { return "k" }, AfterFail: rehop.Halt},
	} {
		if _, err := b.Client.Subscribe(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	for i, queue := range []string{"orders", "orders", "orders", "parcels"} {
		m := rehop.Message{ID: fmt.Sprint("m", i), Key: queue, Body: []byte(`{"n":1}`), Headers: map[string]any{"tenant": "acme"}}
		if err := b.Client.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	b.AwaitFailed("orders", 3)
	b.AwaitFailed("parcels", 1)
}

// session is a logged-in browser.
type session struct {
	handler http.Handler
	cookie  *http.Cookie
}

func (s *session) do(method, target string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(form.Encode()))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if s.cookie != nil {
		r.AddCookie(s.cookie)
	}
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w
}

// Every page is well-formed, and has what assistive technologies need.
func TestMarkup(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full %v", full), func(t *testing.T) {
			s := &session{handler: newConsole(t, full)}
			check(t, "login", s.do("GET", "/login", nil).Body.String())
			check(t, "login refused", s.do("POST", "/login", url.Values{"name": {"bob"}}).Body.String())
			s.cookie = s.do("POST", "/login", url.Values{"name": {"ann"}}).Result().Cookies()[0]
			for _, target := range []string{
				"/", "/queues", "/queue?name=orders", "/failed?queue=orders", "/failed?queue=orders&kind=error&id=m0&id=m1&header=a%3Db&since=1h", "/failed?queue=orders&kind=none",
				"/message?queue=orders&id=m0", "/message?queue=orders&id=m0&view=hex", "/message?queue=orders&id=none", "/waiting", "/waiting?step=rehop.step.1s", "/held", "/held?queue=parcels", "/held?queue=none",
				"/topology", "/doctor", "/doctor?examine=1", "/settings", "/shortcuts", "/none", "/none/below",
			} {
				check(t, target, s.do("GET", target, nil).Body.String())
			}
			for _, action := range []string{"replay", "discard"} {
				check(t, "confirm "+action, s.do("POST", "/confirm", url.Values{"where": {"queue=orders"}, "do": {action + "-all"}}).Body.String())
				check(t, action, s.do("POST", "/"+action, url.Values{"where": {"queue=orders&id=m0"}, "count": {"1"}}).Body.String())
			}
			check(t, "end sessions", s.do("POST", "/sessions", nil).Body.String())
		})
	}
}

// void are the elements without an end.
var void = []string{"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}

// check fails the test if a page is not well-formed, or lacks what it must have.
func check(t *testing.T, name, text string) {
	t.Helper()
	if !strings.HasPrefix(text, "<!doctype html>") {
		t.Errorf("%s: not a page: %.300s", name, text)
		return
	}
	balanced(t, name, text)
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	p := &document{t: t, name: name, ids: map[string]int{}, count: map[string]int{}}
	p.walk(root, nil)
	p.whole()
}

// balanced checks that every element that begins also ends, in the right order: browsers would repair it in silence.
func balanced(t *testing.T, name, text string) {
	t.Helper()
	var open []string
	z := html.NewTokenizer(strings.NewReader(text))
	for {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Errorf("%s: not closed: %v", name, open)
			}
			return
		case html.StartTagToken:
			if tag, _ := z.TagName(); !slices.Contains(void, string(tag)) {
				open = append(open, string(tag))
			}
		case html.EndTagToken:
			tag, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(tag) {
				t.Errorf("%s: </%s> closes %v", name, tag, open)
				return
			}
			open = open[:len(open)-1]
		}
	}
}

// document is a page that is checked.
type document struct {
	t     *testing.T
	name  string
	ids   map[string]int
	refs  []string // ids that attributes name
	count map[string]int
	level int // of the last heading
}

func (p *document) wrong(format string, args ...any) {
	p.t.Helper()
	p.t.Errorf("%s: %s", p.name, fmt.Sprintf(format, args...))
}

func (p *document) walk(n *html.Node, above []*html.Node) {
	p.t.Helper()
	if n.Type == html.ElementNode {
		p.element(n, above)
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		p.walk(c, append(slices.Clip(above), n))
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// textOf is the text of an element.
func textOf(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var s strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		s.WriteString(textOf(c))
	}
	return strings.TrimSpace(s.String())
}

func inside(above []*html.Node, tag string) bool {
	return slices.ContainsFunc(above, func(n *html.Node) bool { return n.Data == tag })
}

func (p *document) element(n *html.Node, above []*html.Node) {
	p.t.Helper()
	p.count[n.Data]++
	for _, a := range n.Attr {
		switch {
		case a.Key == "style", strings.HasPrefix(a.Key, "on"), strings.HasPrefix(a.Key, "hx-"):
			p.wrong("<%s> has the attribute %s, which the policy forbids", n.Data, a.Key)
		case a.Key == "id":
			p.ids[a.Val]++
		case a.Key == "aria-labelledby", a.Key == "aria-describedby", a.Key == "for", a.Key == "data-copy":
			p.refs = append(p.refs, strings.Fields(a.Val)...)
		case a.Key == "href", a.Key == "src", a.Key == "action":
			if u, err := url.Parse(a.Val); err != nil || u.IsAbs() || u.Host != "" || strings.HasPrefix(a.Val, "/") {
				p.wrong("<%s %s=%q> is not relative", n.Data, a.Key, a.Val)
			}
		case a.Key == "tabindex" && a.Val != "0" && a.Val != "-1":
			p.wrong("<%s> has the tabindex %s", n.Data, a.Val)
		}
	}
	switch n.Data {
	case "html":
		if attr(n, "lang") == "" {
			p.wrong("the page has no language")
		}
	case "script":
		if attr(n, "src") == "" || textOf(n) != "" {
			p.wrong("a script is in the page")
		}
	case "style":
		p.wrong("a style is in the page")
	case "title", "h1", "h2", "button", "a", "summary", "legend", "caption", "dt":
		if textOf(n) == "" && attr(n, "aria-label") == "" {
			p.wrong("<%s> has no text: %v", n.Data, n.Attr)
		}
	case "img":
		if attr(n, "alt") == "" {
			p.wrong("a picture has no text")
		}
	case "input", "select", "textarea":
		if attr(n, "type") != "hidden" && !inside(above, "label") && attr(n, "aria-labelledby") == "" && attr(n, "aria-label") == "" {
			p.wrong("<%s name=%s> has no label", n.Data, attr(n, "name"))
		}
		if attr(n, "type") != "hidden" && !inside(above, "form") {
			p.wrong("<%s name=%s> is in no form", n.Data, attr(n, "name"))
		}
	case "table":
		if n.FirstChild == nil || n.FirstChild.Data != "caption" {
			p.wrong("a table has no caption")
		}
	case "th":
		if !has(n, "scope") {
			p.wrong("a table header has no scope")
		}
	case "fieldset":
		if n.FirstChild == nil || n.FirstChild.Data != "legend" {
			p.wrong("a group of fields has no legend")
		}
	case "nav", "section":
		if attr(n, "aria-label") == "" && attr(n, "aria-labelledby") == "" {
			p.wrong("<%s> has no name", n.Data)
		}
	case "form":
		if inside(above, "form") {
			p.wrong("a form is in a form")
		}
	}
	if attr(n, "role") == "region" && attr(n, "aria-label") == "" && attr(n, "aria-labelledby") == "" {
		p.wrong("a region has no name")
	}
	if len(n.Data) == 2 && n.Data[0] == 'h' && n.Data[1] >= '1' && n.Data[1] <= '6' {
		level := int(n.Data[1] - '0')
		if level > p.level+1 {
			p.wrong("a heading of level %d follows level %d", level, p.level)
		}
		p.level = level
	}
}

// whole checks what the page must have once.
func (p *document) whole() {
	p.t.Helper()
	for _, tag := range []string{"title", "h1", "main", "header", "footer"} {
		if p.count[tag] != 1 {
			p.wrong("it has %d <%s>, want 1", p.count[tag], tag)
		}
	}
	for id, n := range p.ids {
		if n > 1 {
			p.wrong("%d elements have the id %q", n, id)
		}
	}
	for _, ref := range p.refs {
		if p.ids[ref] == 0 {
			p.wrong("no element has the id %q", ref)
		}
	}
}

// The checks find what they are for.
func TestCheckFinds(t *testing.T) {
	for _, bad := range []string{`<p><b></p></b>`, `<div>`} {
		probe := &testing.T{}
		balanced(probe, "", bad)
		if !probe.Failed() {
			t.Errorf("%s: nothing was found", bad)
		}
	}
	for _, bad := range []string{`<a href="x" onclick="y">z</a>`, `<img src="x">`, `<form><input name=x></form>`, `<table><tr><th>x</th></tr></table>`, `<a href="//evil">x</a>`, `<script>1</script>`, `<p id=a></p><p id=a></p>`, `<button></button>`, `<h3>x</h3>`, ""} {
		probe := &testing.T{}
		root, err := html.Parse(strings.NewReader(`<html lang="en"><body>` + bad))
		if err != nil {
			t.Fatal(err)
		}
		p := &document{t: probe, ids: map[string]int{}, count: map[string]int{"title": 1, "h1": 1, "main": 1, "header": 1, "footer": 1}}
		p.walk(root, nil)
		p.whole()
		if probe.Failed() != (bad != "") {
			t.Errorf("%q: found something: %v", bad, probe.Failed())
		}
	}
}
