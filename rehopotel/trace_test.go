package rehopotel_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/rehopotel"
	"github.com/rehop/rehop/rehoptest"
)

var errNotYet = errors.New("not yet")

// traced is a broker whose client is traced.
type traced struct {
	*rehoptest.Broker
	t         *testing.T
	spans     *tracetest.SpanRecorder
	tracer    trace.Tracer
	telemetry *rehopotel.Telemetry
}

// inBubble runs a test in virtual time, on a broker whose client is traced.
func inBubble(t *testing.T, test func(t *testing.T, b *traced)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
		telemetry, err := rehopotel.New(rehopotel.Config{Tracers: provider})
		if err != nil {
			t.Fatal(err)
		}
		broker := rehoptest.Open(t, withHooks(telemetry.Client()))
		test(t, &traced{broker, t, recorder, provider.Tracer("test"), telemetry})
	})
}

func withHooks(hooks rehop.Hooks) rehoptest.Option {
	return rehoptest.WithConfig(func(c *rehop.Config) { c.Hooks = append(c.Hooks, hooks) })
}

func (b *traced) subscribe(s rehop.Subscriber) {
	b.t.Helper()
	if _, err := b.Client.Subscribe(b.t.Context(), s); err != nil {
		b.t.Fatal(err)
	}
}

func (b *traced) publish(ctx context.Context, m rehop.Message) {
	b.t.Helper()
	if err := b.Client.Publish(ctx, m); err != nil {
		b.t.Fatal(err)
	}
}

// publishUntraced publishes with a client that has no hooks.
func (b *traced) publishUntraced(m rehop.Message) {
	b.t.Helper()
	other, err := rehop.Open(b.t.Context(), b.Config())
	if err != nil {
		b.t.Fatal(err)
	}
	if err := errors.Join(other.Publish(b.t.Context(), m), other.Close(b.t.Context())); err != nil {
		b.t.Fatal(err)
	}
}

func (b *traced) replay(queue string) {
	b.t.Helper()
	config := b.Config()
	desk, err := admin.Open(b.t.Context(), admin.Config{URL: config.URL, Dial: config.Dial})
	if err != nil {
		b.t.Fatal(err)
	}
	defer desk.Close()
	if progress, err := desk.Replay(b.t.Context(), queue, admin.Options{}); err != nil || progress.Done != 1 {
		b.t.Fatalf("replayed %d messages, error %v; want 1", progress.Done, err)
	}
}

// named are the spans of a name that have ended, in the order in which they began.
func (b *traced) named(name string, want int) []sdktrace.ReadOnlySpan {
	b.t.Helper()
	synctest.Wait() // for the hooks
	var found []sdktrace.ReadOnlySpan
	for _, s := range b.spans.Ended() {
		if s.Name() == name {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(x, y sdktrace.ReadOnlySpan) int { return x.StartTime().Compare(y.StartTime()) })
	if len(found) != want {
		var all []string
		for _, s := range b.spans.Ended() {
			all = append(all, s.Name())
		}
		b.t.Fatalf("%d spans %q, want %d; there are %q", len(found), name, want, all)
	}
	return found
}

func below(t *testing.T, what string, child sdktrace.ReadOnlySpan, parent trace.SpanContext) {
	t.Helper()
	if child.Parent().SpanID() != parent.SpanID() || child.SpanContext().TraceID() != parent.TraceID() {
		t.Errorf("%s: span %q is below %v in trace %v, want %v in %v", what, child.Name(), child.Parent().SpanID(), child.SpanContext().TraceID(), parent.SpanID(), parent.TraceID())
	}
}

func linked(t *testing.T, what string, span sdktrace.ReadOnlySpan, to ...sdktrace.ReadOnlySpan) {
	t.Helper()
	var got, want []trace.SpanID
	for _, link := range span.Links() {
		got = append(got, link.SpanContext.SpanID())
	}
	for _, s := range to {
		want = append(want, s.SpanContext().SpanID())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: span %q has links to %v, want %v", what, span.Name(), got, want)
	}
}

// A target receives the attempt's span.
func TestCarry(t *testing.T) {
	inBubble(t, func(t *testing.T, b *traced) {
		var carried []string
		b.subscribe(rehop.Subscriber{Queue: "orders", Retry: rehop.Steps(time.Minute), Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
			b.telemetry.Carry(ctx, func(name, value string) { carried = append(carried, name+" "+value) })
			if d.Attempt == 1 {
				return errNotYet
			}
			return nil
		})})
		b.publish(t.Context(), rehop.Message{Key: "orders"})
		b.AwaitEmpty("orders")
		var want []string
		for _, s := range b.named("process orders", 2) {
			want = append(want, "traceparent 00-"+s.SpanContext().TraceID().String()+"-"+s.SpanContext().SpanID().String()+"-01")
		}
		if !slices.Equal(carried, want) {
			t.Errorf("got %q, want %q", carried, want)
		}
	})
}

func attributeOf(s sdktrace.ReadOnlySpan, name string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == name {
			return a.Value.String()
		}
	}
	return ""
}

// One message from its publisher through two attempts to its rest, and from its replay, which fails once more, to its end.
func TestSpansFollowAMessage(t *testing.T) {
	inBubble(t, func(t *testing.T, b *traced) {
		var mu sync.Mutex
		var inside []trace.SpanContext
		b.subscribe(rehop.Subscriber{Queue: "orders", Exchange: "shop", Keys: []string{"order.#"}, Retry: rehop.Steps(time.Hour),
			Handler: rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
				mu.Lock()
				inside = append(inside, trace.SpanContextFromContext(ctx))
				mu.Unlock()
				if d.Replays == 0 || d.Attempt == 1 {
					return errNotYet
				}
				return nil
			})})
		ctx, request := b.tracer.Start(t.Context(), "request")
		b.publish(ctx, rehop.Message{ID: "7", Exchange: "shop", Key: "order.created", Body: []byte("body")})
		request.End()
		b.AwaitFailed("orders", 1)
		b.replay("orders")
		b.AwaitEmpty("orders")

		publish := b.named("publish shop", 1)[0]
		attempts := b.named("process orders", 4)
		retries := b.named("retry orders", 2)
		fail := b.named("failed orders", 1)[0]
		below(t, "the publish belongs to the request", publish, request.SpanContext())
		below(t, "first attempt", attempts[0], publish.SpanContext())
		below(t, "second attempt", attempts[1], publish.SpanContext())
		linked(t, "first attempt", attempts[0])
		linked(t, "second attempt", attempts[1], retries[0])
		below(t, "retry", retries[0], attempts[0].SpanContext())
		below(t, "failure", fail, attempts[1].SpanContext())

		replayed := attempts[2]
		if replayed.Parent().IsValid() || replayed.SpanContext().TraceID() == publish.SpanContext().TraceID() {
			t.Errorf("the replayed attempt is in trace %v below %v, want a trace of its own", replayed.SpanContext().TraceID(), replayed.Parent().SpanID())
		}
		linked(t, "replayed attempt", replayed, publish, fail)
		below(t, "retry of the replayed attempt", retries[1], replayed.SpanContext())
		below(t, "attempt after that", attempts[3], replayed.SpanContext())
		linked(t, "attempt after that", attempts[3], retries[1])

		for i, s := range attempts {
			if inside[i].SpanID() != s.SpanContext().SpanID() {
				t.Errorf("attempt %d: the handler's context has span %v, want %v", i+1, inside[i].SpanID(), s.SpanContext().SpanID())
			}
			if want := codes.Error; i < 3 && s.Status().Code != want {
				t.Errorf("attempt %d: status %v, want %v", i+1, s.Status().Code, want)
			}
		}
		for name, want := range map[string]string{"messaging.system": "rabbitmq", "messaging.operation.type": "process", "messaging.destination.name": "orders",
			"messaging.message.id": "7", "messaging.rabbitmq.destination.routing_key": "order.created", "messaging.message.body.size": "4", "rehop.attempt": "2", "rehop.replays": "1"} {
			if got := attributeOf(attempts[3], name); got != want {
				t.Errorf("last attempt: %s is %q, want %q", name, got, want)
			}
		}
		if publish.SpanKind() != trace.SpanKindProducer || replayed.SpanKind() != trace.SpanKindConsumer {
			t.Errorf("kinds are %v and %v, want producer and consumer", publish.SpanKind(), replayed.SpanKind())
		}
	})
}

// A message that was given its context when it was made, as in an outbox, keeps it whoever publishes it.
func TestContextOfTheMaker(t *testing.T) {
	inBubble(t, func(t *testing.T, b *traced) {
		b.subscribe(rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })})
		shared := map[string]any{"own": "kept"}
		m := rehop.Message{Key: "q", Headers: shared}
		ctx, maker := b.tracer.Start(t.Context(), "make")
		b.telemetry.Inject(ctx, &m)
		maker.End()
		b.publish(t.Context(), m)
		b.AwaitEmpty("q")

		publish, process := b.named("publish (default)", 1)[0], b.named("process q", 1)[0]
		if publish.Parent().IsValid() {
			t.Errorf("the publish is below %v, want no parent", publish.Parent().SpanID())
		}
		if len(publish.Links()) != 1 || publish.Links()[0].SpanContext.SpanID() != maker.SpanContext().SpanID() {
			t.Errorf("the publish has links %v, want one to its maker %v", publish.Links(), maker.SpanContext().SpanID())
		}
		below(t, "attempt", process, maker.SpanContext())
		if len(shared) != 1 {
			t.Errorf("the publisher's own headers became %v", shared)
		}
		if m.Headers["own"] != "kept" {
			t.Errorf("the message's headers are %v, want its own among them", m.Headers)
		}
	})
}

// Headers that hold nonsense where a context should be do no harm.
func TestForeignHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, b *traced) {
		b.subscribe(rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				return errNotYet
			}
			return nil
		})})
		b.publish(t.Context(), rehop.Message{Key: "q", Headers: map[string]any{"traceparent": int64(7)}})
		b.AwaitEmpty("q")
		publish, attempts, retry := b.named("publish (default)", 1)[0], b.named("process q", 2), b.named("retry q", 1)[0]
		below(t, "first attempt", attempts[0], publish.SpanContext())
		linked(t, "first attempt", attempts[0])
		linked(t, "second attempt", attempts[1], retry)
	})
}

// A message of a publisher that is not traced begins a trace of its own, and not in that of whoever has subscribed.
func TestUntracedPublisher(t *testing.T) {
	inBubble(t, func(t *testing.T, b *traced) {
		ctx, start := b.tracer.Start(t.Context(), "start")
		if _, err := b.Client.Subscribe(ctx, rehop.Subscriber{Queue: "q", Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error { return nil })}); err != nil {
			t.Fatal(err)
		}
		start.End()
		b.publishUntraced(rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
		process := b.named("process q", 1)[0]
		if process.Parent().IsValid() || process.SpanContext().TraceID() == start.SpanContext().TraceID() {
			t.Errorf("the attempt is below %v in trace %v, want a trace of its own", process.Parent().SpanID(), process.SpanContext().TraceID())
		}
	})
}

// What no queue is bound for ends the span with an error.
func TestUnroutableSpan(t *testing.T) {
	inBubble(t, func(t *testing.T, b *traced) {
		err := b.Client.Publish(t.Context(), rehop.Message{Key: "nobody"})
		if !errors.Is(err, rehop.ErrUnroutable) {
			t.Fatalf("got %v, want ErrUnroutable", err)
		}
		span := b.named("publish (default)", 1)[0]
		if span.Status().Code != codes.Error || attributeOf(span, "error.type") != "unroutable" {
			t.Errorf("status %v, error.type %q; want an error, unroutable", span.Status(), attributeOf(span, "error.type"))
		}
	})
}

// All attempts of a message whose publisher is not traced are in one trace, too: below the first. Its replay links there.
func TestAttemptsOfUntracedPublisher(t *testing.T) {
	inBubble(t, func(t *testing.T, b *traced) {
		seen := make(chan map[string]any, 10)
		b.subscribe(rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute, time.Hour), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			seen <- d.Headers
			if d.Replays == 0 {
				return errNotYet
			}
			return nil
		})})
		b.publishUntraced(rehop.Message{Key: "q", Headers: map[string]any{"own": "kept"}})
		b.AwaitFailed("q", 1)
		b.replay("q")
		b.AwaitEmpty("q")
		attempts, retries, fail := b.named("process q", 4), b.named("retry q", 2), b.named("failed q", 1)[0]
		below(t, "second attempt", attempts[1], attempts[0].SpanContext())
		below(t, "third attempt", attempts[2], attempts[0].SpanContext())
		linked(t, "second attempt", attempts[1], retries[0])
		linked(t, "third attempt", attempts[2], retries[1])
		linked(t, "replayed attempt", attempts[3], attempts[0], fail)
		if replayed := attempts[3]; replayed.Parent().IsValid() || replayed.SpanContext().TraceID() == attempts[0].SpanContext().TraceID() {
			t.Errorf("the replayed attempt is in trace %v below %v, want a trace of its own", replayed.SpanContext().TraceID(), replayed.Parent().SpanID())
		}
		for i := range 4 { // what only hooks need, nobody else sees
			if headers := <-seen; len(headers) != 1 || headers["own"] != "kept" {
				t.Errorf("attempt %d: the handler sees the headers %v, want the publisher's own", i+1, headers)
			}
		}
	})
}

// Spans name the broker.
func TestServerOfSpans(t *testing.T) {
	inBubble(t, func(t *testing.T, b *traced) {
		b.subscribe(rehop.Subscriber{Queue: "q", Retry: rehop.Steps(time.Minute), Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				return errNotYet
			}
			return nil
		})})
		b.publish(t.Context(), rehop.Message{Key: "q"})
		b.AwaitEmpty("q")
		broker, err := url.Parse(b.Config().URL)
		if err != nil {
			t.Fatal(err)
		}
		port := broker.Port()
		if port == "" {
			port = "5672"
		}
		for _, s := range slices.Concat(b.named("publish (default)", 1), b.named("process q", 2), b.named("retry q", 1)) {
			if got, want := attributeOf(s, "server.address")+" "+attributeOf(s, "server.port"), broker.Hostname()+" "+port; got != want {
				t.Errorf("span %q: server.address and server.port are %q, want %q", s.Name(), got, want)
			}
		}
	})
}
