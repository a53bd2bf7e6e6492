package connections

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// What the broker does not accept is an error that names the object, what differs, and what to do;
// nothing else suffers.
func TestTopologyErrors(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	kit.Exchange(t, ch, "fan", "fanout")
	kit.Exchange(t, ch, "plain", "topic")
	w, e := &kit.Wire{}, &events{}
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: e.hooks()})
	got := make(chan *rehop.Delivery, 10)
	handler := kit.Into(got)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", MessageTTL: 5 * time.Second, Handler: handler})
	settle(t, c, e, "q", got)

	limited := r.Vhost + "-limited"
	user(t, r, limited, "secret", "^rehop\\..*$")
	other := kit.Open(t, rehop.Config{URL: with(t, r.URL, func(u *url.URL) { u.User = url.UserPassword(limited, "secret") })})

	for _, test := range []struct {
		name   string
		client *rehop.Client
		s      rehop.Subscriber
		want   rehop.TopologyError
		says   []string
	}{
		{"other TTL", c, rehop.Subscriber{Queue: "q", MessageTTL: 6 * time.Second},
			rehop.TopologyError{Object: "queue", Name: "q", Code: 406, Argument: "x-message-ttl", Want: "6000", Have: "5000"}, []string{"x-message-ttl", "5000", "6000", "ExistingQueue", "rehop topology migrate"}},
		{"no TTL", c, rehop.Subscriber{Queue: "q"},
			rehop.TopologyError{Object: "queue", Name: "q", Code: 406, Argument: "x-message-ttl", Want: "none", Have: "5000"}, []string{"x-message-ttl", "5000", "ExistingQueue"}},
		{"other kind of exchange", c, rehop.Subscriber{Queue: "q2", Exchange: "fan"},
			rehop.TopologyError{Object: "exchange", Name: "fan", Code: 406, Argument: "type", Want: "topic", Have: "fanout"}, []string{"type", "topic", "fanout", "ExistingExchange"}},
		{"exchange without alternate exchange", c, rehop.Subscriber{Queue: "q2", Exchange: "plain"},
			rehop.TopologyError{Object: "exchange", Name: "plain", Code: 406, Argument: "alternate-exchange", Want: "rehop.unrouted", Have: "none"}, []string{"alternate-exchange", "rehop.unrouted", "ExistingExchange"}},
		{"missing foreign exchange", c, rehop.Subscriber{Queue: "q3", Exchange: "missing", ExistingExchange: true},
			rehop.TopologyError{Object: "exchange", Name: "missing", Code: 404}, []string{"no exchange", "create it"}},
		{"missing passive queue", c, rehop.Subscriber{Queue: "q4", ExistingQueue: true},
			rehop.TopologyError{Object: "queue", Name: "q4", Code: 404}, []string{"no queue", "create it"}},
		{"not permitted", other, rehop.Subscriber{Queue: "q5"},
			rehop.TopologyError{Object: "queue", Name: "q5.failed", Code: 403}, []string{"permission", limited}},
	} {
		test.s.Handler = handler
		_, err := test.client.Subscribe(kit.Context(t), test.s)
		var te *rehop.TopologyError
		if !errors.As(err, &te) {
			t.Errorf("%s: got %v of type %T, want a *TopologyError", test.name, err, err)
			continue
		}
		got := rehop.TopologyError{Object: te.Object, Name: te.Name, Code: te.Code, Argument: te.Argument, Want: te.Want, Have: te.Have}
		if got != test.want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", test.name, got, test.want)
		}
		for _, word := range append(test.says, test.want.Name) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: got %q, want %q in it", test.name, err, word)
			}
		}
	}
	// The subscription that was there before is untouched.
	kit.Publish(t, c, rehop.Message{ID: "after", Key: "q"})
	if d := kit.Receive(t, got, "message"); d.ID != "after" {
		t.Errorf("got %q, want the message published after the refusals", d.ID)
	}
	wantUntouched(t, w, e, "q")
}

// Open declares the config's exchanges, and reports what is wrong with them.
func TestOpenReportsTopologyErrors(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	kit.Exchange(t, r.Channel(), "fan", "fanout")
	_, err := rehop.Open(kit.Context(t), rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "fan", Type: "direct"}},
		Logger: slog.New(slog.DiscardHandler)})
	var te *rehop.TopologyError
	if !errors.As(err, &te) || te.Object != "exchange" || te.Name != "fan" || te.Code != 406 || te.Argument != "type" {
		t.Errorf("got %v, want a *TopologyError of exchange fan with argument type", err)
	}
}

// A queue is replaced by one that does not fit while it is consumed: the subscription reports it, tries
// again at a leisurely pace, and continues when the queue is repaired. Others do not notice.
func TestTopologyBreaksLater(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	w, e := &kit.Wire{}, &events{}
	c := kit.Open(t, rehop.Config{URL: r.URL, Dial: w.Dial, Hooks: e.hooks()})
	got := make(chan *rehop.Delivery, 100)
	for _, q := range []string{"broken", "other"} {
		kit.Subscribe(t, c, rehop.Subscriber{Queue: q, Exchange: "order", Keys: []string{q}, Handler: kit.Into(got)})
		settle(t, c, e, q, got)
	}
	// The subscription learns of the deletion when the other queue is there. While RabbitMQ deletes a quorum queue, it still accepts a declaration
	// that fits it, and a consumer that comes then may get the queue that is declared next.
	release := w.Newest(t, "consume").Hold()
	kit.DeleteQueue(t, ch, "broken")
	kit.Queue(t, ch, "broken", amqp.Table{"x-queue-type": "classic"})
	release()
	refusals := func() []consumerEvent {
		var all []consumerEvent
		for _, c := range e.consumers {
			var te *rehop.TopologyError
			if c.Queue == "broken" && errors.As(c.Err, &te) && te.Code == 406 && te.Name == "broken" && te.Argument != "" {
				all = append(all, c)
			}
		}
		return all
	}
	e.await(t, "told what differs", func() bool { return len(refusals()) >= 1 })
	kit.Publish(t, c, rehop.Message{ID: "meanwhile", Exchange: "order", Key: "other"})
	if d := kit.Receive(t, got, "message"); d.ID != "meanwhile" {
		t.Errorf("got %q, want the other subscription's message", d.ID)
	}
	e.await(t, "tried again", func() bool { return len(refusals()) >= 2 })
	e.mu.Lock()
	tries := refusals()
	if pause := tries[1].at.Sub(tries[0].at); pause < time.Second {
		t.Errorf("tried again after %v, want 1 s at least", pause)
	}
	e.mu.Unlock()
	wantUntouched(t, w, e, "other")
	kit.DeleteQueue(t, ch, "broken")
	e.await(t, "consuming again", func() bool { return e.ups("broken") >= 3 })
	kit.Publish(t, c, rehop.Message{ID: "mended", Exchange: "order", Key: "broken"})
	if d := kit.Receive(t, got, "message"); d.ID != "mended" || d.Queue != "broken" {
		t.Errorf("got %q from %q, want mended from broken", d.ID, d.Queue)
	}
}

// Two clients share a queue by mistake, and one holds it exclusively.
func TestExclusiveQueueHeldByAnother(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	one, two := kit.Open(t, rehop.Config{URL: r.URL}), kit.Open(t, rehop.Config{URL: r.URL})
	s := rehop.Subscriber{Queue: "mine", Exclusive: true, Handler: kit.Into(make(chan *rehop.Delivery, 1))}
	kit.Subscribe(t, one, s)
	_, err := two.Subscribe(kit.Context(t), s)
	var te *rehop.TopologyError
	if !errors.As(err, &te) || te.Code != 405 || te.Name != "mine" || !strings.Contains(err.Error(), "exclusively") {
		t.Errorf("got %v, want a *TopologyError 405 of queue mine that says why", err)
	}
}
