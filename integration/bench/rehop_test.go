package bench

import (
	"context"
	"errors"
	"log/slog"

	"github.com/rehop/rehop"
)

type rehopLibrary struct{}

// rehopExchange has an alternate exchange, as all that rehop declares.
const rehopExchange = "bench-rehop"

func (rehopLibrary) name() string { return "rehop" }

func (rehopLibrary) retryShare() float64 { return 1 }

func (rehopLibrary) open(b *bench) (*rehop.Client, error) {
	return rehop.Open(context.Background(), rehop.Config{
		URL: b.url, Exchanges: []rehop.Exchange{{Name: rehopExchange}}, Logger: slog.New(slog.DiscardHandler),
	})
}

func (l rehopLibrary) publisher(b *bench, queue string) (func(context.Context) error, func() error, error) {
	client, err := l.open(b)
	if err != nil {
		return nil, nil, err
	}
	exchange, err := b.exchange(queue, rehopExchange)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close(context.Background()))
	}
	publish := func(ctx context.Context) error {
		return client.Publish(ctx, rehop.Message{Exchange: exchange, Key: queue, Body: b.body})
	}
	return publish, func() error { return client.Close(context.Background()) }, nil
}

// subscribe consumes. The queues that are only consumed are the same for all; where messages fail, the
// queue is rehop's own.
func (l rehopLibrary) subscribe(b *bench, s rehop.Subscriber) (func() error, error) {
	client, err := l.open(b)
	if err != nil {
		return nil, err
	}
	s.Concurrency, s.Prefetch = *concurrency, b.prefetch
	if _, err := client.Subscribe(context.Background(), s); err != nil {
		return nil, errors.Join(err, client.Close(context.Background()))
	}
	return func() error { return client.Close(context.Background()) }, nil
}

func (l rehopLibrary) consumer(b *bench, queue string, handled func()) (func() error, error) {
	return l.subscribe(b, rehop.Subscriber{Queue: queue, ExistingQueue: true, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		handled()
		return nil
	})})
}

func (l rehopLibrary) retryQueue(b *bench, queue string) error {
	stop, err := l.retrier(b, queue, func() {}, func() {})
	if err != nil {
		return err
	}
	return stop()
}

func (l rehopLibrary) retrier(b *bench, queue string, failed, done func()) (func() error, error) {
	oops := errors.New("oops")
	return l.subscribe(b, rehop.Subscriber{Queue: queue, Retry: rehop.Steps(*wait),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt == 1 {
				failed()
				return oops
			}
			done()
			return nil
		})})
}
