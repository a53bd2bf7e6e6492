package console_test

import (
	"net/url"
	"testing"

	"github.com/rehop/rehop"
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
