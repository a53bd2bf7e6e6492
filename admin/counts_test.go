package admin_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
)

// stale is a management API whose statistics are old: all queues were empty then.
type stale struct{ *ward }

var messageCounts = regexp.MustCompile(`("(messages_ready|messages_unacknowledged|consumers)":)\d+`)

func (s stale) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.ward.RoundTrip(r)
	if err != nil || !strings.HasPrefix(r.URL.Path, "/api/queues/") {
		return answer, err
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(messageCounts.ReplaceAll(text, []byte("${1}0"))))
	answer.ContentLength = -1
	return answer, nil
}

// The counts of an overview are those of the queues, not those of late statistics. Exclusive queues, which nobody else can ask, keep these.
func TestQueuesAreNotStale(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWard(t, nil)
		client := w.client()
		sub := subscribed(t, client, rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil }))
		if err := sub.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		closed(t, client)
		for queue, n := range map[string]int{"orders": 3, "orders.failed": 2, "rehop.orphans": 4, "rehop.unrouted": 5, "rehop.step.1h": 6} {
			for range n {
				if err := w.ch.PublishWithContext(t.Context(), "", queue, true, false, amqp.Publishing{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := w.ch.QueueDeclare("rehop.exclusive", false, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		a, err := admin.Open(t.Context(), admin.Config{URL: "amqp://guest:guest@embedded/", Dial: w.server.Dial,
			Management: "http://guest:guest@embedded", HTTP: &http.Client{Transport: stale{w}}})
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		o, err := a.Queues(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Queues) != 1 || o.Queues[0].Ready != 3 || o.Queues[0].Failed != 2 || o.Orphans != 4 || o.Unrouted != 5 {
			t.Errorf("got %+v, want 3 ready, 2 failed, 4 orphans and 5 unrouted", o)
		}
		for _, q := range o.DelayQueues {
			if q.Name == "rehop.step.1h" && q.Messages != 6 {
				t.Errorf("queue %q: got %d messages, want 6", q.Name, q.Messages)
			}
		}
	})
}
