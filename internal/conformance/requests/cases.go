package requests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
)

// echo replies with the body of the request.
func echo(c *rehop.Client) rehop.HandlerFunc {
	return func(ctx context.Context, d *rehop.Delivery) error {
		return c.Reply(ctx, rehop.Message{Body: append([]byte("re: "), d.Body...)})
	}
}

// The properties of a reply reach the requester, and its own correlation id comes back with it.
func roundTrip(b *Bench) {
	client := b.client()
	b.serve(client, "q", func(ctx context.Context, d *rehop.Delivery) error {
		if d.CorrelationID == "mine" || d.CorrelationID == "" {
			b.t.Errorf("correlation id on the wire: got %q, want one of rehop's own", d.CorrelationID)
		}
		return client.Reply(ctx, rehop.Message{ID: "reply", Type: "price.v1", ContentType: "text/plain", AppID: "shop", CorrelationID: "ignored",
			Headers: map[string]any{"h": "v"}, Body: []byte("re: " + string(d.Body))})
	})
	got, err := client.Request(b.context(), rehop.Message{Key: "q", CorrelationID: "mine", Body: []byte("hello")})
	b.must(err)
	if string(got.Body) != "re: hello" || got.CorrelationID != "mine" || got.ID != "reply" || got.Type != "price.v1" ||
		got.ContentType != "text/plain" || got.AppID != "shop" || len(got.Headers) != 1 || got.Headers["h"] != "v" {
		b.t.Errorf("got %+v with body %q, want the reply as it was sent, and the correlation id of the request", got, got.Body)
	}
}

// Events are requests and replies, too.
func typed(b *Bench) {
	type question struct{ A, B int }
	add, sum := rehop.Event[question]{Key: "q", Type: "add.v1"}, rehop.Event[int]{Type: "sum.v1"}
	client := b.client()
	b.serve(client, "q", add.Handler(func(ctx context.Context, q question) error {
		m, err := sum.Message(q.A + q.B)
		if err != nil {
			return err
		}
		return client.Reply(ctx, m)
	}).Handle)
	m, err := add.Message(question{2, 3})
	b.must(err)
	reply, err := client.Request(b.context(), m)
	b.must(err)
	if got, err := sum.Decode(reply); err != nil || got != 5 {
		b.t.Errorf("got %d and %v, want 5", got, err)
	}
}

// Each request gets its own reply.
func manyAtOnce(b *Bench) {
	client := b.client()
	b.serve(client, "q", echo(client))
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			body := fmt.Sprint(i)
			if got, err := client.Request(b.context(), rehop.Message{Key: "q", Body: []byte(body)}); err != nil || string(got.Body) != "re: "+body {
				b.t.Errorf("request %d: got %q and %v, want the reply to it", i, got.Body, err)
			}
		})
	}
	all.Wait()
}

// Requests with the same correlation id, of one client and of another, do not get each other's replies.
func sameCorrelationID(b *Bench) {
	one, other := b.client(), b.client()
	ch := b.channel()
	requests := b.consume(ch, b.queue(ch, "q"))
	var answers []<-chan answer
	var got []amqp091.Delivery
	for i, c := range []*rehop.Client{one, one, other} {
		answers = append(answers, request(b.context(), c, rehop.Message{Key: "q", CorrelationID: "same", Body: []byte(fmt.Sprint(i))}))
		got = append(got, next(b, requests, "a request"))
	}
	for i := len(got) - 1; i >= 0; i-- {
		b.must(ch.Publish("", got[i].ReplyTo, false, false, amqp091.Publishing{CorrelationId: got[i].CorrelationId, Body: got[i].Body}))
	}
	for i, a := range answers {
		if a := next(b, a, "a reply"); a.err != nil || string(a.reply.Body) != fmt.Sprint(i) || a.reply.CorrelationID != "same" {
			b.t.Errorf("request %d: got %q with correlation id %q and %v, want the reply to it", i, a.reply.Body, a.reply.CorrelationID, a.err)
		}
	}
}

// A request for which there is no queue fails at once, also where such messages are kept.
func unroutable(b *Bench) {
	keeping := func(c *rehop.Config) {
		c.KeepUnroutable, c.Exchanges = true, []rehop.Exchange{{Name: "orders"}}
	}
	client := b.client(keeping)
	for name, m := range map[string]rehop.Message{
		"no queue":    {Key: "missing"},
		"no binding":  {Exchange: "orders", Key: "missing"},
		"no exchange": {Exchange: "missing"},
	} {
		_, err := client.Request(b.context(), m)
		b.wantError(name, err, rehop.ErrUnroutable)
	}
	b.serve(client, "q", echo(client))
	_, err := client.Request(b.context(), rehop.Message{Key: "q"})
	b.must(err)
}

// A request without a reply ends at its deadline. A reply that comes later is dropped.
func noReply(b *Bench) {
	client := b.client()
	ch := b.channel()
	requests := b.consume(ch, b.queue(ch, "q"))
	_, err := client.Request(b.within(time.Second), rehop.Message{Key: "q"})
	b.wantError("without a reply", err, rehop.ErrUnknown, context.DeadlineExceeded)
	late := next(b, requests, "the first request")
	answers := request(b.context(), client, rehop.Message{Key: "q"})
	second := next(b, requests, "the second request")
	for _, d := range []amqp091.Delivery{late, second} {
		b.must(ch.Publish("", d.ReplyTo, false, false, amqp091.Publishing{CorrelationId: d.CorrelationId, Body: []byte(d.MessageId)}))
	}
	if a := next(b, answers, "the reply to the second"); a.err != nil || string(a.reply.Body) != second.MessageId {
		b.t.Errorf("second: got %q and %v, want the reply to it", a.reply.Body, a.err)
	}
}

// The first of several replies is the reply.
func severalReplies(b *Bench) {
	client := b.client()
	b.serve(client, "q", func(ctx context.Context, d *rehop.Delivery) error {
		return errors.Join(client.Reply(ctx, rehop.Message{Body: []byte("first")}), client.Reply(ctx, rehop.Message{Body: []byte("second")}))
	})
	for range 3 {
		if got, err := client.Request(b.context(), rehop.Message{Key: "q"}); err != nil || string(got.Body) != "first" {
			b.t.Errorf("got %q and %v, want the first reply", got.Body, err)
		}
	}
}

// A request that is retried keeps the address for its reply.
func retriedHandler(b *Bench) {
	client := b.client()
	b.serve(client, "q", func(ctx context.Context, d *rehop.Delivery) error {
		if d.Attempt == 1 {
			return errors.New("not yet")
		}
		return client.Reply(ctx, rehop.Message{Body: []byte(fmt.Sprint("attempt ", d.Attempt))})
	})
	if got, err := client.Request(b.context(), rehop.Message{Key: "q"}); err != nil || string(got.Body) != "attempt 2" {
		b.t.Errorf("got %q and %v, want the reply of the second attempt", got.Body, err)
	}
}

// The reply cannot come when the connection is lost: the request ends at once and is not sent again. The
// next one works.
func connectionLost(b *Bench) {
	wire := &cable{dial: b.Dial}
	client := b.client(func(c *rehop.Config) { c.Dial = wire.Dial })
	ch := b.channel()
	requests := b.consume(ch, b.queue(ch, "q"))
	answers := request(b.context(), client, rehop.Message{Key: "q", ID: "lost"})
	lost := next(b, requests, "a request")
	wire.cut()
	a := next(b, answers, "the end of a request whose connection is lost")
	b.wantError("connection lost", a.err, rehop.ErrUnknown)
	if errors.Is(a.err, context.DeadlineExceeded) {
		b.t.Errorf("connection lost: got %v, want it before the deadline", a.err)
	}
	b.must(ch.Publish("", lost.ReplyTo, false, false, amqp091.Publishing{CorrelationId: lost.CorrelationId})) // nobody is there
	answers = request(b.context(), client, rehop.Message{Key: "q", ID: "next"})
	d := next(b, requests, "the next request")
	if d.MessageId != "next" {
		b.t.Errorf("after the connection was lost: got request %s, want no other than the next one", d.MessageId)
	}
	b.must(ch.Publish("", d.ReplyTo, false, false, amqp091.Publishing{CorrelationId: d.CorrelationId}))
	if a := next(b, answers, "the reply to the next"); a.err != nil {
		b.t.Errorf("next: got %v, want nil", a.err)
	}
}

// Close waits for replies.
func closeWaits(b *Bench) {
	client := b.client()
	ch := b.channel()
	requests := b.consume(ch, b.queue(ch, "q"))
	answers := request(b.context(), client, rehop.Message{Key: "q"})
	d := next(b, requests, "a request")
	closed := make(chan error, 1)
	go func() { closed <- client.Close(b.context()) }()
	for { // until Close has begun
		_, err := client.Request(b.context(), rehop.Message{Key: "missing"})
		if errors.Is(err, rehop.ErrClosed) {
			break
		}
		b.wantError("before Close has begun", err, rehop.ErrUnroutable)
	}
	b.must(ch.Publish("", d.ReplyTo, false, false, amqp091.Publishing{CorrelationId: d.CorrelationId, Body: []byte("in time")}))
	if a := next(b, answers, "the reply"); a.err != nil || string(a.reply.Body) != "in time" {
		b.t.Errorf("got %q and %v, want the reply", a.reply.Body, a.err)
	}
	if err := next(b, closed, "the end of Close"); err != nil {
		b.t.Errorf("close: got %v, want nil", err)
	}
}

// Any client can reply.
func otherReplier(b *Bench) {
	client := b.client()
	ch := b.channel()
	requests := b.consume(ch, b.queue(ch, "q"))
	answers := request(b.context(), client, rehop.Message{Key: "q", CorrelationID: "mine", Body: []byte("hello")})
	d := next(b, requests, "a request")
	if !strings.HasPrefix(d.ReplyTo, "amq.rabbitmq.reply-to.") || d.CorrelationId == "" || string(d.Body) != "hello" {
		b.t.Errorf("request: got reply-to %q, correlation id %q, body %q; want a direct reply-to, some id, hello", d.ReplyTo, d.CorrelationId, d.Body)
	}
	b.must(ch.Publish("", d.ReplyTo, false, false, amqp091.Publishing{CorrelationId: d.CorrelationId, Headers: amqp091.Table{"t": amqp091.Table{"n": int32(1)}}, Body: []byte("hi")}))
	a := next(b, answers, "the reply")
	b.must(a.err)
	nested, _ := a.reply.Headers["t"].(map[string]any)
	if string(a.reply.Body) != "hi" || a.reply.CorrelationID != "mine" || nested["n"] != int32(1) {
		b.t.Errorf("got %+v with body %q, want the reply with its headers", a.reply, a.reply.Body)
	}
}

// Any client can ask, and gets the reply with its correlation id. Whether it is still there makes no
// difference to the handler.
func otherRequester(b *Bench) {
	client := b.client()
	replied := make(chan error, 1)
	gone := make(chan struct{})
	b.serve(client, "q", func(ctx context.Context, d *rehop.Delivery) error {
		if string(d.Body) == "wait" {
			<-gone
		}
		err := echo(client)(ctx, d)
		replied <- err
		return err
	})
	ch := b.channel()
	replies := b.consume(ch, "amq.rabbitmq.reply-to")
	b.must(ch.Publish("", "q", true, false, amqp091.Publishing{ReplyTo: "amq.rabbitmq.reply-to", CorrelationId: "theirs", Body: []byte("hello")}))
	if d := next(b, replies, "the reply"); string(d.Body) != "re: hello" || d.CorrelationId != "theirs" {
		b.t.Errorf("got %q with correlation id %q, want the reply with that of the request", d.Body, d.CorrelationId)
	}
	b.wantNil("reply", next(b, replied, "the end of the reply"))

	b.must(ch.Confirm(false))
	confirm, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp091.Publishing{ReplyTo: "amq.rabbitmq.reply-to", Body: []byte("wait")})
	b.must(err)
	confirm.Wait()
	b.must(ch.Close())
	close(gone)
	b.wantNil("reply to one that has gone", next(b, replied, "the end of the second reply"))
}

// A reply can go to a queue. If there is no such queue, the handler gets an error.
func replyToQueue(b *Bench) {
	client := b.client()
	replied := make(chan error, 1)
	b.serve(client, "q", func(ctx context.Context, d *rehop.Delivery) error {
		replied <- echo(client)(ctx, d)
		return nil
	})
	ch := b.channel()
	mine := b.queue(ch, "")
	replies := b.consume(ch, mine)
	b.must(ch.Publish("", "q", true, false, amqp091.Publishing{ReplyTo: mine, CorrelationId: "theirs", Body: []byte("hello")}))
	if d := next(b, replies, "the reply"); string(d.Body) != "re: hello" || d.CorrelationId != "theirs" {
		b.t.Errorf("got %q with correlation id %q, want the reply with that of the request", d.Body, d.CorrelationId)
	}
	b.wantNil("reply", next(b, replied, "the end of the reply"))
	b.must(ch.Publish("", "q", true, false, amqp091.Publishing{ReplyTo: "missing"}))
	b.wantError("reply to a missing queue", next(b, replied, "the end of the second reply"), rehop.ErrUnroutable)
}
