package console_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/triage"
)

// What is masked is on no page of a queue, and in no download.
func TestMask(t *testing.T) {
	mask, err := triage.NewMask(triage.MaskRules{Headers: []string{"token"}, Paths: []string{"customer.email"}, Texts: []string{`secret-\d+`}})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, func(o *console.Options) { o.Mask = mask })
	f.fail("orders", rehop.Message{ID: "m1", ContentType: "application/json", Body: []byte(`{"customer":{"email":"hidden@example.com"},"total":9223372036854775807}`),
		Headers: map[string]any{"token": "t-hidden", "fail": "refused secret-42"}})
	for _, target := range []string{"/failed?queue=orders", "/message?queue=orders&id=m1", "/message?queue=orders&id=m1&view=hex", "/body?queue=orders&id=m1", "/export?queue=orders&format=csv"} {
		f.get(target).lacks(t, "secret-42", "t-hidden", "hidden@example.com")
	}
	f.get("/message?queue=orders&id=m1").has(t, "9223372036854775807", triage.Masked)
	f.get("/failed?queue=orders").lacks(t, "format=jsonl")
	f.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {"discard-all"}}).lacks(t, "format=jsonl")
	if p := do(t, f.console, "GET", "/export?queue=orders&format=jsonl", nil); p.status != 403 {
		t.Errorf("got %d %s, want 403: an import would lose what is masked", p.status, p.text)
	}
}

// attributes are what a page needs to name a message in links and forms.
var attributes = regexp.MustCompile(`(href|value|action)="[^"]*"`)

// Rules for texts apply to all texts of a message that are shown. Links and forms work although the id is masked.
func TestMaskTexts(t *testing.T) {
	mask, err := triage.NewMask(triage.MaskRules{Texts: []string{`secret-\d+`}})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, func(o *console.Options) { o.Mask = mask })
	f.fail("orders", rehop.Message{ID: "secret-42", ContentType: "text/secret-42", CorrelationID: "secret-42", ReplyTo: "secret-42", Type: "secret-42", Body: []byte("a secret-42"),
		Headers: map[string]any{"secret-42": "x", "fail": "refused secret-42"}})
	message := "/message?queue=orders&id=secret-42"
	for _, target := range []string{"/failed?queue=orders", message, message + "&view=hex", "/body?queue=orders&id=secret-42", "/export?queue=orders&format=csv"} {
		shown := f.get(target)
		if text := attributes.ReplaceAllString(shown.text, ""); strings.Contains(text, "secret-42") {
			t.Errorf("%s shows what is masked:\n%s", target, text)
		}
	}
	f.get("/failed?queue=orders").has(t, `href="message?id=secret-42&amp;queue=orders"`)
	f.get(message).has(t, triage.Masked, "body?id=secret-42&amp;queue=orders")
	asked := f.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {"discard-selected"}, "pick": {"secret-42"}})
	asked.has(t, `id="count">1<`)
	if text := attributes.ReplaceAllString(asked.text, ""); strings.Contains(text, "secret-42") {
		t.Errorf("the page that asks shows what is masked:\n%s", text)
	}
}

// The picture of the topology and the event stream have no texts that pages mask.
func TestMaskPictureAndEvents(t *testing.T) {
	mask, err := triage.NewMask(triage.MaskRules{Texts: []string{`secret-\d+`}})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, func(o *console.Options) { o.Mask = mask })
	f.subscribe("orders.secret-42")
	f.subscribe("orders.secret-43")
	if text := attributes.ReplaceAllString(f.get("/topology").text, ""); strings.Contains(text, "secret-") {
		t.Errorf("the page shows what is masked:\n%s", text)
	}
	picture := f.get("/topology.svg")
	picture.lacks(t, "secret-")
	if n := strings.Count(picture.text, "<title>orders."+triage.Masked+".failed, quorum</title>"); n != 2 {
		t.Errorf("got %d queues with a mask, want 2:\n%s", n, picture.text)
	}
	c := newConsole(t, func(o *console.Options) {
		o.Mask, o.Triage = mask, func(context.Context) (*triage.Store, error) { return nil, errors.New("no place for secret-42") }
		o.Connect = func(context.Context) (*admin.Admin, error) { return nil, errors.New("no connection to secret-42") }
	})
	for query, want := range map[string]string{"": "no connection to " + triage.Masked, "run=r1": "no place for " + triage.Masked} {
		events := listen(t, c, func(r *http.Request) {
			r.Header.Set("Test-Role", "viewer")
			r.URL.RawQuery = query
		})
		if got := <-events; !strings.Contains(got, want) || strings.Contains(got, "secret-") {
			t.Errorf("the stream of %q: got %s, want %s", query, got, want)
		}
		go func() { // until the console is closed
			for range events {
			}
		}()
	}
}
