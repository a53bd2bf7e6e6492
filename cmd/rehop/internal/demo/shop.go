package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// shop takes orders. Two services receive events: the summary receives every change, and the notification sends the customer an SMS for
// each new order.
type shop struct {
	server  *broker.Server
	client  *rehop.Client
	desk    *admin.Admin
	console Console // nil: there is none
	books   *books
	gateway *gateway
	orders  atomic.Int64
}

// open starts the broker, which keeps everything in memory, and the services. They report failures if there is a console.
func open(ctx context.Context, books *books, gateway *gateway, steps []time.Duration, reports bool) (_ *shop, err error) {
	silent := slog.New(slog.DiscardHandler) // the demo shows failures itself
	s := &shop{server: &broker.Server{Logger: silent}, books: books, gateway: gateway}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if err := s.server.Start(); err != nil {
		return nil, fmt.Errorf("start the broker: %w", err)
	}
	if s.client, err = rehop.Open(ctx, rehop.Config{Dial: s.server.Dial, Hooks: []rehop.Hooks{books.hooks()}, Reports: reports, Logger: silent}); err != nil {
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

func (s *shop) close(ctx context.Context) error {
	var faults []error
	if s.console != nil {
		faults = append(faults, s.console.Close())
	}
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

func (s *shop) notify(ctx context.Context, d *rehop.Delivery) error {
	number, ok := d.Headers[headerOrder].(int64)
	if !ok {
		return rehop.Permanent(fmt.Errorf("an order whose number is %v", d.Headers[headerOrder]))
	}
	var order struct{ Phone string }
	if err := json.Unmarshal(d.Body, &order); err != nil {
		return rehop.Permanent(fmt.Errorf("order %d: %w", number, err))
	}
	return s.gateway.send(ctx, int(number), order.Phone)
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
		number := int(s.orders.Add(1))
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

// publishLimit is how long the embedded broker may take to confirm.
const publishLimit = 10 * time.Second

// publish does not end with the demo: each message is either published or not.
func (s *shop) publish(key string, order int, to ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), publishLimit)
	defer cancel()
	m := rehop.Message{ID: rehop.NewID(), Exchange: Exchange, Key: key, ContentType: "application/json",
		Headers: map[string]any{headerOrder: int64(order), headerEvent: rehop.NewID()}, Body: fmt.Appendf(nil, `{"order": %d, "phone": %q}`, order, phoneOf(order))}
	s.books.expect(eventOf(m.Headers), to...)
	return s.client.Publish(ctx, m)
}

// replay corrects the phone numbers, and returns failed messages to their queue.
func (s *shop) replay(ctx context.Context) error {
	s.gateway.corrected.Store(s.orders.Load())
	progress, err := s.desk.Replay(ctx, Notification, admin.Options{})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	s.books.log("replay: %d messages return from the failed queue to their queue", progress.Done)
	return nil
}

// consoleURL is the address of the console, or empty.
func (s *shop) consoleURL() string {
	if s.console == nil {
		return ""
	}
	return s.console.URL()
}

// countRemoved notes how many failed messages the user has removed in the console.
func (s *shop) countRemoved(ctx context.Context) error {
	if s.console == nil {
		return nil
	}
	n, err := s.console.Removed(ctx)
	if err == nil {
		s.books.remove(n)
	}
	return err
}

// failedEvents returns the ids of the events in the failed queues of the broker.
func (s *shop) failedEvents(ctx context.Context) (map[string][]string, error) {
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
			found[queue] = append(found[queue], eventOf(m.Headers))
		}
	}
	return found, nil
}
