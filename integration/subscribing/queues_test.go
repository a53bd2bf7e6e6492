package subscribing

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func TestExclusiveConsumerRefusesOthers(t *testing.T) {
	t.Parallel()
	kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
		r := lab.Single(t)
		a, b := kit.OpenQuick(t, r, rehop.Config{}), kit.OpenQuick(t, r, rehop.Config{})
		got := make(chan *rehop.Delivery, 10)
		s := rehop.Subscriber{Queue: "q", QueueType: kind, ExclusiveConsumer: true, Concurrency: 2, Handler: kit.Into(got)}
		first, err := a.Subscribe(kit.Context(t), s)
		if err != nil && kind == layout.Quorum {
			return // the honest answer where the broker does not enforce it
		} else if err != nil {
			t.Fatal(err)
		}
		for i := range 3 { // also after the first message, from which on it receives more at once
			_, err := b.Subscribe(kit.Context(t), s)
			var refused *rehop.TopologyError
			if !errors.As(err, &refused) {
				t.Fatalf("second consumer, round %d: got %v, want a *TopologyError", i, err)
			}
			if refused.Code != 403 || refused.Name != "q" || !strings.Contains(refused.Object, "consumer") {
				t.Errorf("error: got code %d of %s %q, want 403 of the consumer of q", refused.Code, refused.Object, refused.Name)
			}
			kit.Publish(t, b, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
			if d := kit.Receive(t, got, "message"); d.ID != fmt.Sprint(i) {
				t.Errorf("message: got %s, want %d", d.ID, i)
			}
		}
		kit.Drain(t, first)
		second := kit.Subscribe(t, b, s)
		kit.Publish(t, a, rehop.Message{Key: "q"})
		kit.Receive(t, got, "message of the second consumer")
		kit.Drain(t, second)
	})
}

// Not even while rehop replaces its own consumer may another one get in.
func TestExclusiveConsumerHasNoGap(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	conn, err := amqp.Dial(r.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := kit.OpenQuick(t, r, rehop.Config{})
	var seen kit.Tally
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", QueueType: layout.Classic, ExclusiveConsumer: true, Concurrency: 4, Handler: &seen})
	intruders := make(chan int, 1)
	stop := make(chan struct{})
	go func() {
		n := 0
		defer func() { intruders <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			ch, err := conn.Channel()
			if err != nil {
				return
			}
			if _, err := ch.Consume("q", "intruder", false, false, false, false, nil); err == nil {
				n++
				_ = ch.Close()
			}
		}
	}()
	kit.Publish(t, c, kit.Numbered("q", 20)...)
	lab.Eventually(t, kit.Limit, "all handled", func() bool { return seen.Len() == 20 })
	close(stop)
	if got := kit.Receive(t, intruders, "intruder stopped"); got != 0 {
		t.Errorf("other consumers that got in: got %d, want 0", got)
	}
	kit.Drain(t, sub)
}

func TestSingleActiveConsumer(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ch := r.Channel()
	c := kit.OpenQuick(t, r, rehop.Config{})
	var a, b kit.Tally
	s := rehop.Subscriber{Queue: "q", SingleActiveConsumer: true, Concurrency: 2}
	s.Handler = &a
	first := kit.Subscribe(t, c, s)
	kit.Publish(t, c, rehop.Message{ID: "warm", Key: "q"})
	lab.Eventually(t, kit.Limit, "first message handled", func() bool { return a.Sum() == 1 })
	s.Handler = &b
	second := kit.Subscribe(t, c, s)
	kit.Publish(t, c, kit.Numbered("q", 50)...)
	lab.Eventually(t, kit.Limit, "all handled", func() bool { return a.Sum()+b.Sum() == 51 })
	if min(a.Sum(), b.Sum()) > 1 { // the careful start may hand over after its one message
		t.Errorf("messages: got %d at the first consumer and %d at the second, want all at one", a.Sum(), b.Sum())
	}
	kit.Drain(t, first)
	before := b.Sum()
	kit.Publish(t, c, kit.Numbered("q", 50)...)
	lab.Eventually(t, kit.Limit, "the other takes over", func() bool { return b.Sum() == before+50 })
	kit.Drain(t, second)
	wantGone(t, r, ch, "q")
}

func TestConsumerPriority(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	var low, high kit.Tally
	s := rehop.Subscriber{Queue: "q", QueueType: layout.Classic}
	s.ConsumerPriority, s.Handler = 10, &high
	kit.Subscribe(t, c, s)
	one := func(id string) {
		t.Helper()
		before := low.Sum() + high.Sum()
		kit.Publish(t, c, rehop.Message{ID: id, Key: "q"})
		lab.Eventually(t, kit.Limit, "handled", func() bool { return low.Sum()+high.Sum() == before+1 })
	}
	one("warm")
	lab.Eventually(t, kit.Limit, "the higher one has its full prefetch", func() bool {
		var consumers []struct {
			Prefetch int `json:"prefetch_count"`
		}
		r.API("GET", "/api/consumers/"+r.Vhost, nil, &consumers)
		return len(consumers) == 1 && consumers[0].Prefetch == 4
	})
	s.ConsumerPriority, s.Handler = -1, &low
	kit.Subscribe(t, c, s)
	for i := range 30 { // one at a time: the higher one is always free
		one(fmt.Sprint(i))
	}
	if got := low.Sum(); got != 0 {
		t.Errorf("messages of the lower consumer: got %d of 30, want none", got)
	}
}

func TestConsumerTag(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	got := make(chan *rehop.Delivery, 1)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", ConsumerTag: "billing-7", ConsumerPriority: 3, Concurrency: 2, Prefetch: 9, Handler: kit.Into(got)})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	kit.Receive(t, got, "message")
	type consumer struct {
		Tag       string         `json:"consumer_tag"`
		Prefetch  int            `json:"prefetch_count"`
		Arguments map[string]any `json:"arguments"`
		Queue     struct{ Name string }
	}
	var consumers []consumer
	lab.Eventually(t, kit.Limit, "the consumer with its full prefetch in the broker's list", func() bool {
		consumers = nil
		r.API("GET", "/api/consumers/"+r.Vhost, nil, &consumers)
		return len(consumers) == 1 && consumers[0].Prefetch == 9
	})
	if got := consumers[0]; got.Tag != "billing-7" || got.Queue.Name != "q" || got.Arguments["x-priority"] != float64(3) {
		t.Errorf("consumer: got %+v, want billing-7 on q with priority 3", got)
	}
}

func TestMessageTTL(t *testing.T) {
	t.Parallel()
	kit.EachType(t, func(t *testing.T, kind layout.QueueType) {
		r := lab.Single(t)
		ch := r.Channel()
		fill(t, r, rehop.Subscriber{Queue: "q", Exchange: "x", Keys: []string{"some.key"}, QueueType: kind, MessageTTL: 100 * time.Millisecond}, 0)
		c := kit.OpenQuick(t, r, rehop.Config{})
		kit.Publish(t, c, rehop.Message{ID: "m", Exchange: "x", Key: "some.key", Body: []byte("b")})
		d := kit.Take(t, ch, "q.failed")
		if f := kit.Failure(d); f.Kind != "dead" || !strings.Contains(f.Error, "expired") || f.Queue != "q" || f.Exchange != "x" || f.Key != "some.key" || f.FailedAt.IsZero() {
			t.Errorf("failed: got %+v, want dead, expired, of q, published to x with some.key", f)
		}
		if d.MessageId != "m" || string(d.Body) != "b" {
			t.Errorf("failed: got id %q, body %q; want m, b", d.MessageId, d.Body)
		}
		kit.WantDepth(t, r, ch, "q", 0)
	})
}

func TestMaxLength(t *testing.T) {
	t.Parallel()
	const length, messages = 5, 12
	for _, kind := range []layout.QueueType{layout.Quorum, layout.Classic} {
		for _, overflow := range []string{"reject-publish", "drop-head"} {
			t.Run(string(kind)+" "+overflow, func(t *testing.T) {
				t.Parallel()
				r := lab.Single(t)
				ch := r.Channel()
				s := rehop.Subscriber{Queue: "q", QueueType: kind, MaxLength: length, Overflow: overflow}
				fill(t, r, s, 0)
				c := kit.OpenQuick(t, r, rehop.Config{})
				refused := 0
				for _, m := range kit.Numbered("q", messages) {
					err := c.Publish(kit.Context(t), m)
					switch {
					case errors.Is(err, rehop.ErrRefused):
						refused++
					case err != nil:
						t.Fatalf("publish: got %v, want nil or %v", err, rehop.ErrRefused)
					}
				}
				if overflow == "drop-head" {
					if refused != 0 {
						t.Errorf("refused: got %d, want 0", refused)
					}
					kit.WantDepth(t, r, ch, "q", length)
					kit.WantDepth(t, r, ch, "q.failed", messages-length)
					if d := kit.Take(t, ch, "q.failed"); d.MessageId != "0" || !strings.Contains(kit.Failure(d).Error, "maxlen") {
						t.Errorf("first that gave way: got %s (%s), want 0 (maxlen)", d.MessageId, kit.Failure(d).Error)
					}
					return
				}
				if refused < messages-length-1 { // a quorum queue may take one above
					t.Errorf("refused: got %d, want about %d", refused, messages-length)
				}
				kit.WantDepth(t, r, ch, "q", messages-refused)
				kit.WantDepth(t, r, ch, "q.failed", 0)
			})
		}
	}
}

func TestQueueArguments(t *testing.T) {
	t.Parallel()
	type queue struct {
		Type       string
		Durable    bool
		AutoDelete bool `json:"auto_delete"`
		Exclusive  bool
		Arguments  map[string]any
	}
	for name, test := range map[string]struct {
		s          rehop.Subscriber
		want       queue
		wantArgs   map[string]any
		wantNoArgs []string
	}{
		"default": {rehop.Subscriber{}, queue{Type: "quorum", Durable: true},
			map[string]any{"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-delivery-limit": 50.0,
				"x-dead-letter-exchange": layouts.ReturnExchange, "x-dead-letter-routing-key": "q.failed"}, []string{"x-message-ttl", "x-expires", "x-max-length"}},
		"classic": {rehop.Subscriber{QueueType: layout.Classic}, queue{Type: "classic", Durable: true},
			map[string]any{"x-dead-letter-exchange": layouts.ReturnExchange}, []string{"x-dead-letter-strategy", "x-overflow", "x-delivery-limit"}},
		"bounds": {rehop.Subscriber{MessageTTL: time.Hour, Expires: 2 * time.Hour, MaxLength: 7, MaxBytes: 1 << 20, SingleActiveConsumer: true},
			queue{Type: "quorum", Durable: true}, map[string]any{"x-message-ttl": 3.6e6, "x-expires": 7.2e6, "x-max-length": 7.0,
				"x-max-length-bytes": float64(1 << 20), "x-single-active-consumer": true}, nil},
		"drop-head": {rehop.Subscriber{Overflow: "drop-head"}, queue{Type: "quorum", Durable: true},
			map[string]any{"x-overflow": "drop-head"}, []string{"x-dead-letter-strategy"}},
		"priorities": {rehop.Subscriber{MaxPriority: 5}, queue{Type: "classic", Durable: true}, map[string]any{"x-max-priority": 5.0}, nil},
		"own arguments": {rehop.Subscriber{QueueArgs: map[string]any{"x-delivery-limit": 70, "x-max-in-memory-length": 10}}, queue{Type: "quorum", Durable: true},
			map[string]any{"x-delivery-limit": 70.0, "x-max-in-memory-length": 10.0}, nil},
		"exclusive":   {rehop.Subscriber{Exclusive: true}, queue{Type: "classic", Exclusive: true}, nil, nil},
		"auto-delete": {rehop.Subscriber{AutoDelete: true}, queue{Type: "classic", Durable: true, AutoDelete: true}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			c := kit.OpenQuick(t, r, rehop.Config{})
			got := make(chan *rehop.Delivery, 10)
			test.s.Queue, test.s.Handler = "q", kit.Into(got)
			kit.Subscribe(t, c, test.s)
			var q queue
			lab.Eventually(t, kit.Limit, "the queue in the management API", func() bool {
				return r.TryAPI("GET", "/api/queues/"+r.Vhost+"/q", nil, &q) == nil && q.Type != ""
			})
			if q.Type != test.want.Type || q.Durable != test.want.Durable || q.AutoDelete != test.want.AutoDelete || q.Exclusive != test.want.Exclusive {
				t.Errorf("queue: got %+v, want %+v", q, test.want)
			}
			for name, want := range test.wantArgs {
				if got := q.Arguments[name]; got != want {
					t.Errorf("argument %s: got %v, want %v", name, got, want)
				}
			}
			for _, name := range test.wantNoArgs {
				if got, ok := q.Arguments[name]; ok {
					t.Errorf("argument %s: got %v, want none", name, got)
				}
			}
			for i := range 3 { // it works, also past the change from the careful start to the full prefetch
				kit.Publish(t, c, rehop.Message{ID: fmt.Sprint(i), Key: "q"})
				if d := kit.Receive(t, got, "message"); d.ID != fmt.Sprint(i) {
					t.Errorf("message: got %s, want %d", d.ID, i)
				}
			}
		})
	}
}

// A queue that ends with its last consumer must not end when rehop itself replaces that consumer.
func TestAutoDeleteQueueSurvivesItsOwnRestart(t *testing.T) {
	t.Parallel()
	const messages = 50
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	var seen kit.Tally
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", AutoDelete: true, Concurrency: 2, Handler: &seen})
	kit.Publish(t, c, kit.Numbered("q", messages)...)
	lab.Eventually(t, kit.Limit, "all that was confirmed is handled", func() bool { return seen.Len() == messages })
}

func TestQueueExpires(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	got := make(chan *rehop.Delivery, 1)
	sub := kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Expires: 5 * time.Second, Handler: kit.Into(got)})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	kit.Receive(t, got, "message")
	kit.Drain(t, sub)
	lab.Eventually(t, kit.Limit, "the unused queue is gone", func() bool {
		return r.TryAPI("GET", "/api/queues/"+r.Vhost+"/q", nil, nil) != nil
	})
}

func TestMaxPriorityOrder(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	s := rehop.Subscriber{Queue: "q", MaxPriority: 9, Concurrency: 1}
	wantPriorities(t, r, s, 9, 5, 5, 1, 0)
}

// wantPriorities publishes messages of several priorities to the queue of a subscription, and then checks in which order it receives them.
func wantPriorities(t *testing.T, r *lab.Rabbit, s rehop.Subscriber, want ...uint8) {
	t.Helper()
	fill(t, r, s, 0)
	c := kit.OpenQuick(t, r, rehop.Config{})
	for _, p := range []uint8{1, 5, 9, 0, 5} {
		kit.Publish(t, c, rehop.Message{Key: "q", Priority: p})
	}
	got := make(chan *rehop.Delivery, 10)
	s.Handler = kit.Into(got)
	kit.Subscribe(t, c, s)
	var order []uint8
	for range 5 {
		order = append(order, kit.Receive(t, got, "message").Priority)
	}
	if !slices.Equal(order, want) {
		t.Errorf("order: got %v, want %v", order, want)
	}
}

// Quorum queues have priorities from RabbitMQ 4.0 on: two at first, and all from 4.3 on, where a message without one counts as 4.
func TestQuorumPriorityOrder(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	s := rehop.Subscriber{Queue: "q", QueueType: layout.Quorum, MaxPriority: 9, Concurrency: 1, Handler: kit.Into(make(chan *rehop.Delivery, 10))}
	var want []uint8
	switch {
	case lab.Release() >= broker.RabbitMQ43:
		want = []uint8{9, 5, 5, 0, 1}
	case lab.Release() >= broker.RabbitMQ40:
		want = []uint8{5, 9, 1, 5, 0} // two of the higher level, then one of the other
	default:
		_, err := kit.OpenQuick(t, r, rehop.Config{}).Subscribe(t.Context(), s)
		if e := (*rehop.TopologyError)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), "have no priorities") {
			t.Errorf("got %v, want that quorum queues of this release have no priorities", err)
		}
		return
	}
	wantPriorities(t, r, s, want...)
}

// A queue of another application, with arguments that rehop would not choose, is used unchanged.
func TestForeignQueue(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]amqp.Table{
		"classic without dead-lettering": {"x-max-length": int32(1000)},
		"quorum":                         {"x-queue-type": "quorum", "x-delivery-limit": int32(7)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const queue = "their queue"
			r := lab.Single(t)
			ch := r.Channel()
			kit.Queue(t, ch, queue, args)
			kit.Exchange(t, ch, "theirs", "direct")
			rec := kit.NewRecorder()
			c := kit.OpenQuick(t, r, rehop.Config{Hooks: rec.Hooks()})
			var attempts kit.Tally
			kit.Subscribe(t, c, rehop.Subscriber{Queue: queue, ExistingQueue: true, Exchange: "theirs", ExistingExchange: true, Keys: []string{"k"},
				Retry: rehop.Steps(100*time.Millisecond, 150*time.Millisecond),
				Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
					attempts.Add(fmt.Sprint(d.Attempt))
					if d.Exchange != "theirs" || d.Key != "k" {
						t.Errorf("attempt %d: got exchange %q, key %q; want theirs, k", d.Attempt, d.Exchange, d.Key)
					}
					return errors.New("always")
				})})
			if err := ch.PublishWithContext(kit.Context(t), "theirs", "k", true, false, amqp.Publishing{Body: []byte("raw")}); err != nil {
				t.Fatal(err)
			}
			d := kit.Take(t, ch, queue+".failed")
			f := kit.Failure(d)
			if f.Attempt != 3 || f.Kind != "error" || f.Queue != queue || f.Exchange != "theirs" || f.Key != "k" || string(d.Body) != "raw" {
				t.Errorf("failed: got %+v with body %q; want attempt 3, error, %q, theirs, k, raw", f, d.Body, queue)
			}
			attempts.WantAttempts(t, 1)
			var q struct{ Arguments map[string]any }
			r.API("GET", "/api/queues/"+r.Vhost+"/"+url.PathEscape(queue), nil, &q)
			if args["x-queue-type"] == nil && q.Arguments["x-queue-type"] == "classic" {
				delete(q.Arguments, "x-queue-type") // RabbitMQ 4 adds it by itself
			}
			if len(q.Arguments) != len(args) {
				t.Errorf("arguments of the queue: got %v, want %v", q.Arguments, args)
			}
		})
	}
}

// RabbitMQ 4 ends the connection when the text of a refusal has a long name that is not ASCII. The client gets an error and continues.
func TestRefusalOfALongName(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("é", 120)
	r := lab.Single(t)
	kit.Queue(t, r.Channel(), name, amqp.Table{"x-max-length": 7})
	for what, s := range map[string]rehop.Subscriber{
		"missing queue":    {Queue: name + "?", ExistingQueue: true},
		"other arguments":  {Queue: name},
		"missing exchange": {Queue: "q", Exchange: name, ExistingExchange: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := kit.OpenQuick(t, r, rehop.Config{})
			s.Handler = kit.Nop
			_, err := c.Subscribe(kit.Context(t), s)
			if refused, ok := errors.AsType[*rehop.TopologyError](err); !ok || !strings.Contains(refused.Error(), "é") {
				t.Fatalf("subscribe: got %v, want a refusal that names it", err)
			}
			other := kit.Subscribe(t, c, rehop.Subscriber{Queue: "other " + what, Handler: kit.Nop})
			lab.Eventually(t, kit.Limit, "another subscription receives", other.Receiving)
			kit.Publish(t, c, rehop.Message{Key: "other " + what})
		})
	}
	t.Run("publish", func(t *testing.T) {
		t.Parallel()
		c := kit.OpenQuick(t, r, rehop.Config{})
		if err := c.Publish(kit.Context(t), rehop.Message{Exchange: name, Key: "k"}); !errors.Is(err, rehop.ErrUnroutable) {
			t.Errorf("publish to an exchange that is missing: got %v, want ErrUnroutable", err)
		}
	})
}

func TestForeignQueueThatIsMissing(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	_, err := c.Subscribe(kit.Context(t), rehop.Subscriber{Queue: "nowhere", ExistingQueue: true, Handler: kit.Into(nil)})
	var missing *rehop.TopologyError
	if !errors.As(err, &missing) || missing.Code != 404 || missing.Object != "queue" || missing.Name != "nowhere" {
		t.Errorf("got %v, want a *TopologyError with code 404 for the queue nowhere", err)
	}
}

func TestOtherArgumentsAreNamed(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	c := kit.OpenQuick(t, r, rehop.Config{})
	fill(t, r, rehop.Subscriber{Queue: "q", MaxLength: 10}, 0)
	_, err := c.Subscribe(kit.Context(t), rehop.Subscriber{Queue: "q", MaxLength: 20, Handler: kit.Into(nil)})
	var differs *rehop.TopologyError
	if !errors.As(err, &differs) {
		t.Fatalf("got %v, want a *TopologyError", err)
	}
	if differs.Code != 406 || differs.Argument != "x-max-length" || !strings.Contains(differs.Want, "20") || !strings.Contains(differs.Have, "10") {
		t.Errorf("got code %d, argument %q, want %q, have %q; want 406, x-max-length, 20, 10", differs.Code, differs.Argument, differs.Want, differs.Have)
	}
}

// Another process deletes the queue: it is declared again, and consumed.
func TestQueueDeletedUnderTheConsumer(t *testing.T) {
	t.Parallel()
	_, ch, rec, c := kit.Setup(t)
	got := make(chan *rehop.Delivery, 10)
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Exchange: "x", Handler: kit.Into(got)})
	kit.Publish(t, c, rehop.Message{ID: "a", Exchange: "x", Key: "k"})
	kit.Receive(t, got, "message before")
	kit.Receive(t, rec.Results, "result")
	kit.DeleteQueue(t, ch, "q")
	lab.Eventually(t, kit.Limit, "a message gets through again", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return c.Publish(ctx, rehop.Message{ID: "b", Exchange: "x", Key: "k"}) == nil
	})
	if d := kit.Receive(t, got, "message after"); d.ID != "b" {
		t.Errorf("message: got %s, want b", d.ID)
	}
}
