//go:build !race

package consoling

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// From a search to the group, a replay with canary, and its page; and an edited message keeps its numbers, types and bytes.
func TestSearchToCanary(t *testing.T) {
	r := lab.Embedded(t)
	ctx := kit.Timeout(t, kit.Limit)
	x := newIndexed(t)
	client := kit.Open(t, rehop.Config{URL: r.URL, Reports: true})
	got := make(chan *rehop.Delivery, 100)
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "orders", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.Replays == 0 && d.Headers["edited"] == nil || d.Headers["edited"] == "badly" {
			return errors.New("connection refused")
		}
		got <- d
		return nil
	})})
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	service, err := triage.NewService(triage.ServiceConfig{Store: x.store, Admin: a, CheckEvery: 300 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); service.Run(running) }()
	t.Cleanup(func() { stop(); <-ended })
	ch := r.Channel()
	lab.Eventually(t, kit.Limit, "reports are collected", func() bool { // subscribers report nothing for a while after nobody has heard a report
		_, err := a.ErrorQueue("rehop.triage").Depth(ctx)
		return err == nil
	})
	lab.Eventually(t, kit.Limit, "the queue of reports has a consumer", func() bool {
		q, err := ch.QueueDeclarePassive("rehop.triage", true, false, false, false, nil)
		return err == nil && q.Consumers > 0
	})
	headers := map[string]any{"large": int64(1<<63 - 1), "small": int8(-3), "f": 1.5, "bytes": []byte{0xff, 0}, "table": map[string]any{"<b>": "\u202e"}}
	body := []byte("{\"n\":9223372036854775807,\r\n\"text\":\"<b>\u202e\u0000⟦U+0041⟧\"}\n")
	all := []rehop.Message{{Key: "orders", ID: "edit", Body: body, Headers: headers, ContentType: "application/json"}}
	for i := range 15 {
		all = append(all, rehop.Message{Key: "orders", ID: fmt.Sprint("m", i), Body: []byte("{}")})
	}
	kit.Publish(t, client, all...)
	lab.Eventually(t, kit.Limit, "16 messages are in the index", func() bool { return len(x.refs()) == 16 })

	search := x.get("/search?q=error%3Arefused+id%3Aedit")
	ref := regexp.MustCompile(`href="found\?ref=([0-9a-f-]+)"`).FindStringSubmatch(search)[1]
	group := regexp.MustCompile(`href="(group\?id=[0-9a-f]+)"`).FindStringSubmatch(search)[1]
	form := fields(x.get("/edit?ref=" + ref))
	form.Set("body", strings.Replace(form.Get("body"), "9223372036854775807", "9223372036854775806", 1))
	form.Set("headers", strings.Replace(form.Get("headers"), "{", `{"edited": true,`, 1))
	preview, _ := x.post("/edit", form, 200)
	x.has(preview, "9223372036854775806", "- ", "+ ")
	_, run := x.post("/resend", fields(preview), 303)
	d := kit.Receive(t, got, "the edited message")
	headers["edited"] = true
	delete(d.Headers, "traceparent")
	if want := strings.Replace(string(body), "807,", "806,", 1); string(d.Body) != want || !reflect.DeepEqual(d.Headers, headers) || d.ContentType != "application/json" {
		t.Errorf("got %q, %#v, want %q, %#v", d.Body, d.Headers, want, headers)
	}
	x.has(x.get("/"+run), "of an edited message")
	lab.Eventually(t, kit.Limit, "the edited message has succeeded", func() bool {
		return strings.Contains(x.get("/found?ref="+ref), `id="state">succeeded`)
	})

	plan, _ := x.post("/plan", with(fields(x.get("/"+group)), "do", "canary"), 200)
	x.has(plan, `id="count">15<`)
	_, run = x.post("/start", with(fields(plan), "canary", "1"), 303)
	for range 15 {
		kit.Receive(t, got, "a replayed message")
	}
	lab.Eventually(t, kit.Limit, "the page has 15 messages that succeeded", func() bool {
		return strings.Contains(x.get("/"+run), `id="c-succeeded">15<`)
	})
	x.has(x.get("/"+run+"&state=succeeded"), "15 of 15", "found?ref=", `data-events="events?run=`)
	event := ask(x.console, "viewer", "HEAD", "/events?run=x", nil)
	if event.Code != 200 {
		t.Errorf("got %d for the stream of a run", event.Code)
	}
	x.has(x.get("/search?q=state%3Asucceeded"), "messages match")

	// An edited message that fails as well, and the old one, lead to each other.
	kit.Publish(t, client, rehop.Message{Key: "orders", ID: "twice", Body: []byte("{}")})
	lab.Eventually(t, kit.Limit, "the message is in the index", func() bool { return strings.Contains(x.get("/search?q=id%3Atwice"), "found?ref=") })
	ref = regexp.MustCompile(`href="found\?ref=([0-9a-f-]+)"`).FindStringSubmatch(x.get("/search?q=id%3Atwice"))[1]
	preview, _ = x.post("/edit", with(fields(x.get("/edit?ref="+ref)), "headers", `{"edited": "badly"}`), 200)
	_, run = x.post("/resend", fields(preview), 303)
	var edited []string
	lab.Eventually(t, kit.Limit, "the page of the old message has a link to the new one", func() bool {
		old := x.get("/found?ref=" + ref)
		edited = regexp.MustCompile(`as <a href="found\?ref=([0-9a-f-]+)"`).FindStringSubmatch(old)
		return edited != nil && strings.Contains(old, `id="state">discarded`) && strings.Contains(old, "Restore…")
	})
	x.has(x.get("/found?ref="+ref), `href="`+run+`"`, "<td>failed, as")
	x.has(x.get("/found?ref="+edited[1]), `edited from</dt><dd><a href="found?ref=`+ref+`"`)
}
