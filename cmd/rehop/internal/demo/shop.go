package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// shop takes orders. Two services follow what happens to them: the summary, which reads every change, and the notification, which tells
// the customer of a new order by SMS.
type shop struct {
	server  *broker.Server
	client  *rehop.Client
	desk    *admin.Admin
	books   *books
	gateway *gateway

	mu     sync.Mutex
	orders int
}

// open starts the broker, which keeps all in memory, and the services.
func open(ctx context.Context, books *books, gateway *gateway, steps []time.Duration) (_ *shop, err error) {
	silent := slog.New(slog.DiscardHandler) // failures are what the demo shows, and it shows them itself
	s := &shop{server: &broker.Server{Logger: silent}, books: books, gateway: gateway}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if err := s.server.Start(); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	if s.client, err = rehop.Open(ctx, rehop.Config{Dial: s.server.Dial, Hooks: []rehop.Hooks{books.hooks()}, Logger: silent}); err != nil {
		return nil, err
	}
	if s.desk, err = admin.Open(ctx, admin.Config{Dial: s.server.Dial}); err != nil {
		return nil, err
	}
	for _, service := range []rehop.Subscriber{
		{Queue: Summary, Keys: []string{everythingKey}, Concurrency: 2, Handler: rehop.HandlerFunc(summarize)},
		{Queue: Notification, Keys: []string{keyCreated}, Concurrency: 8, Handler: rehop.HandlerFunc(s.notify)},
	} {
		service.Exchange, service.Retry = Exchange, rehop.Steps(steps...)
		if _, err := s.client.Subscribe(ctx, service); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// close ends what open has started.
func (s *shop) close(ctx context.Context) error {
	var faults []error
	if s.client != nil {
		faults = append(faults, s.client.Close(ctx))
	}
	if s.desk != nil {
		s.desk.Close()
	}
	return errors.Join(append(faults, s.server.Close())...)
}

// summarize keeps the view of orders that customers see. It always succeeds.
func summarize(context.Context, *rehop.Delivery) error { return nil }

// notify tells the customer of a new order.
func (s *shop) notify(ctx context.Context, d *rehop.Delivery) error {
	number, ok := d.Headers[headerOrder].(int64)
	if !ok {
		return rehop.Permanent(fmt.Errorf("an order whose number is %v", d.Headers[headerOrder]))
	}
	return s.gateway.send(ctx, int(number))
}

// sell takes orders at a rate, until the context ends. Every second order is changed later.
func (s *shop) sell(ctx context.Context, perSecond float64) error {
	ticker := time.NewTicker(time.Duration(float64(time.Second) / perSecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		number := s.nextOrder()
		if err := s.publish(keyCreated, number, Summary, Notification); err != nil {
			return err
		}
		if number%2 == 0 {
			if err := s.publish(keyUpdated, number/2, Summary); err != nil {
				return err
			}
		}
	}
}

func (s *shop) nextOrder() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders++
	return s.orders
}

func (s *shop) taken() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orders
}

// publishLimit is how long a broker within this process may take.
const publishLimit = 10 * time.Second

// publish is not called off when the demo ends: each message is either published or not.
func (s *shop) publish(key string, order int, to ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), publishLimit)
	defer cancel()
	m := rehop.Message{ID: rehop.NewID(), Exchange: Exchange, Key: key, ContentType: "application/json",
		Headers: map[string]any{headerOrder: int64(order)}, Body: fmt.Appendf(nil, `{"order": %d}`, order)}
	s.books.expect(m.ID, to...)
	return s.client.Publish(ctx, m)
}

// replay has the phone numbers corrected, and everything that rests go back to its queue.
func (s *shop) replay(ctx context.Context) error {
	s.gateway.correct(s.taken())
	progress, err := s.desk.Replay(ctx, Notification, admin.Options{})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	s.books.say("replay: %d messages go back from the failed queue to their own", progress.Done)
	return nil
}

// atRest are the ids in the failed queues, as the broker has them.
func (s *shop) atRest(ctx context.Context) (map[string][]string, error) {
	found := make(map[string][]string)
	for _, queue := range []string{Summary, Notification} {
		depth, err := s.desk.Queue(ctx, queue)
		if err != nil {
			return nil, err
		}
		messages, err := s.desk.Failed(ctx, queue, depth.Failed, admin.Filter{})
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			found[queue] = append(found[queue], m.ID)
		}
	}
	return found, nil
}
