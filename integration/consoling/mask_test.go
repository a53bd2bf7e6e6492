//go:build !race

package consoling

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// A message that is edited by somebody who does not see its masked values arrives with these values.
func TestEditKeepsMaskedValues(t *testing.T) {
	r := lab.Embedded(t)
	ctx := kit.Timeout(t, kit.Limit)
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	x := newIndexed(t, withEverything(t, a))
	client := kit.Open(t, rehop.Config{URL: r.URL})
	got := make(chan *rehop.Delivery, 1)
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "orders", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.Headers["edited"] == nil {
			return errors.New("refused secret-42")
		}
		got <- d
		return nil
	})})
	service, err := triage.NewService(triage.ServiceConfig{Store: x.store, Admin: a, CheckEvery: 300 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); service.Run(running) }()
	t.Cleanup(func() { stop(); <-ended })
	const body = `{"customer":{"email":"hidden@example.com","name":"Ann"},"cards":["secret-1","secret-22"],"n":9223372036854775807}`
	kit.Publish(t, client, rehop.Message{Key: "orders", ID: "m1", ContentType: "application/json", Body: []byte(body), Headers: map[string]any{"token": "t-hidden", "n": int8(7)}})
	lab.Eventually(t, kit.Limit, "the message is in the index", func() bool { return len(x.refs()) == 1 })

	page := x.get("/edit?ref=" + x.refs()[0])
	form := fields(page)
	form.Set("body", strings.Replace(form.Get("body"), "9223372036854775807", "9223372036854775806", 1))
	form.Set("headers", strings.Replace(form.Get("headers"), "{", `{"edited": true,`, 1))
	preview, _ := x.post("/edit", form, 200)
	for _, text := range []string{page, preview} {
		x.lacks(text, "hidden@example.com", "t-hidden", "secret-1", "secret-22", "secret-42")
	}
	x.post("/resend", fields(preview), 303)
	d := kit.Receive(t, got, "the edited message")
	if want := strings.Replace(body, "807}", "806}", 1); string(d.Body) != want || d.Headers["token"] != "t-hidden" || d.Headers["n"] != int8(7) {
		t.Errorf("got %s, %#v, want %s and the headers of the original", d.Body, d.Headers, want)
	}
}

// Neither the audit nor the log shows what pages mask, whatever characters it has and wherever it comes from.
func TestMaskAuditAndLog(t *testing.T) {
	r := lab.Embedded(t)
	a, err := admin.Open(kit.Timeout(t, kit.Limit), admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	client := kit.Open(t, rehop.Config{URL: r.URL})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "orders", Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
	line := `{"id":"for <ann@example.com>","queue":"orders","exchange":"","key":"orders","body":"eA==","attempts":1,"kind":"error","error":"x","failed_at":"2026-01-02T00:00:00Z","first_failed":"2026-01-02T00:00:00Z"}`
	if _, err := a.Import(t.Context(), strings.NewReader(line+"\n")); err != nil {
		t.Fatal(err)
	}
	mask, err := triage.NewMask(triage.MaskRules{Texts: []string{`<?[a-z]+@example\.com>?`}})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	x := newIndexed(t, func(o *console.Options) {
		o.Mask, o.Admin, o.Connect, o.Logger = mask, a, nil, slog.New(slog.NewTextHandler(&log, nil))
	})
	m := some(1)
	m[0].Error = "no mail to <ann@example.com>"
	x.put(m...)

	asked, _ := x.post("/confirm", url.Values{"where": {"queue=orders"}, "do": {"discard-selected"}, "pick": {url.QueryEscape("for <ann@example.com>")}}, 200)
	x.post("/discard", fields(asked), 200)
	asked, _ = x.post("/plan", url.Values{"scope": {"all"}, "query": {url.QueryEscape(`"ann@example.com"`)}, "do": {"keep"}}, 200)
	x.post("/start", fields(asked), 303)
	ask(x.console, "viewer", "GET", "/found.export?format=csv&q="+url.QueryEscape("ann@example.com"), nil)
	x.lacks(x.get("/audit"), "ann@", "ann%40", `\u003c`)
	x.has(x.get("/audit"), `"filter":{"id":["for [masked]"]}`)
	x.lacks(log.String(), "ann@", "ann%40")
	x.has(log.String(), "filter=\"map[id:[for [masked]]]\"", "a run was started", "messages were exported")
	records, err := x.store.AuditRecords(t.Context(), 0, 10)
	if err != nil || len(records) != 2 || !strings.Contains(string(records[1].Details), "ann@example.com") {
		t.Errorf("got %v, %v, want that the record itself has what was discarded", records, err)
	}
}
