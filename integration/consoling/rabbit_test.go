package consoling

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/console"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

var hidden = regexp.MustCompile(`<input type="hidden" name="(where|count|latest)" value="([^"]*)">`)

// On RabbitMQ, too, what was confirmed is replayed, and nothing that failed later.
func TestReplayOnRabbitMQ(t *testing.T) {
	r := lab.Single(t)
	ctx := kit.Timeout(t, kit.Limit)
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: lab.Setting(t, "REHOP_RABBITMQ_MANAGEMENT")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	client := kit.Open(t, rehop.Config{URL: r.URL})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: "orders", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
		if d.Replays > 0 {
			return nil
		}
		return errors.New("it failed")
	})})
	fail := func(prefix string, n, total int) {
		t.Helper()
		for i := range n {
			if err := client.Publish(ctx, rehop.Message{ID: fmt.Sprint(prefix, i), Key: "orders"}); err != nil {
				t.Fatal(err)
			}
		}
		lab.Eventually(t, kit.Limit, fmt.Sprintf("%d failed messages", total), func() bool {
			q, err := a.Queue(ctx, "orders")
			return err == nil && q.Failed == total
		})
	}
	c, err := console.New(console.Options{Admin: a, Logger: slog.New(slog.DiscardHandler), Login: func(context.Context, string, string) (console.User, error) {
		return console.User{Name: "ann", Role: console.Operator}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	s := &session{handler: c}
	s.cookie = s.do("POST", "/login", nil).Result().Cookies()[0]
	fail("old", 50, 50)
	if text := s.do("GET", "/failed?queue=orders", nil).Body.String(); !strings.Contains(text, "all 50 that match") {
		t.Errorf("the list: %s", text)
	}
	asked := s.do("POST", "/confirm", url.Values{"where": {"queue=orders"}, "do": {"replay-all"}}).Body.String()
	form := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(asked, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	fail("new", 10, 60)
	if text := s.do("POST", "/replay", form).Body.String(); !strings.Contains(text, `id="done">50<`) {
		t.Errorf("the outcome: %s", text)
	}
	left, err := a.Failed(ctx, "orders", 100, admin.Filter{})
	if err != nil || len(left) != 10 {
		t.Fatalf("left: got %d messages, %v, want 10", len(left), err)
	}
	for _, m := range left {
		if !strings.HasPrefix(m.ID, "new") {
			t.Errorf("message %s is left, want only those that failed later", m.ID)
		}
	}
	for _, target := range []string{"/", "/queues", "/queue?name=orders", "/message?queue=orders&id=new0", "/waiting", "/held", "/topology", "/doctor?examine=1", "/settings"} {
		w := s.do("GET", target, nil)
		if w.Code != 200 {
			t.Errorf("%s: got %d %s", target, w.Code, w.Body)
			continue
		}
		check(t, target, w.Body.String())
	}
}
