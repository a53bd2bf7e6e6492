package brokers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/rabbit"
)

// scenario is one kind of load.
type scenario struct {
	name string
	run  func(ctx context.Context, c contender, queue string) (measure, error)

	floored bool // whether the floor can do it too
}

const oneByOneName = "publish one by one"

var scenarios = []scenario{
	{"publish", publishing, true},
	{"consume", consuming, false}, // what publish has left
	{oneByOneName, oneByOne, true},
	{"publish and consume", both, false},
}

// client is a connection with one channel that all goroutines share.
type client struct {
	link *rabbit.Link
	ch   *amqp.Channel
}

// dial connects with the transport of rehop. amqp091-go flushes after every message and every ack, and a system call for each costs the
// client more than all the rest: without this the client is measured, not the broker.
func dial(ctx context.Context, url string) (*client, error) {
	link := rabbit.NewLink("bench", rabbit.Options{URLs: []string{url}, Dial: (&net.Dialer{}).DialContext, Name: "bench", DialTimeout: 10 * time.Second, Heartbeat: 10 * time.Second,
		Backoff: rabbit.Backoff{Min: time.Second, Max: time.Second}}, func(rabbit.State, error) {})
	ch, err := link.Channel(ctx)
	if err != nil {
		link.Close()
		return nil, err
	}
	return &client{link, ch}, nil
}

func (c *client) close() { c.link.Close() }

// publish publishes n messages from some goroutines, each of which waits for its confirm. Some more go before the clock starts.
func (c *client) publish(ctx context.Context, queue string, goroutines, n int) (measure, error) {
	if err := c.ch.Confirm(false); err != nil {
		return measure{}, err
	}
	if _, err := c.send(ctx, queue, goroutines, warmup); err != nil {
		return measure{}, err
	}
	return c.send(ctx, queue, goroutines, n)
}

// warmup is how many messages are published before the clock starts.
const warmup = 100

func (c *client) send(ctx context.Context, queue string, goroutines, n int) (measure, error) {
	body := make([]byte, *size)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var begun atomic.Int64
	var group sync.WaitGroup
	latencies := make([][]time.Duration, goroutines)
	began := time.Now()
	for g := range goroutines {
		group.Go(func() {
			for begun.Add(1) <= int64(n) {
				sent := time.Now()
				confirm, err := c.ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
				if err == nil {
					var acked bool
					if acked, err = confirm.WaitContext(ctx); err == nil && !acked {
						err = errors.New("negative confirm")
					}
				}
				if err != nil {
					cancel(err)
					return
				}
				latencies[g] = append(latencies[g], time.Since(sent))
			}
		})
	}
	group.Wait()
	took := time.Since(began)
	if err := context.Cause(ctx); err != nil {
		return measure{}, err
	}
	return measure{n, took, slices.Concat(latencies...)}, nil
}

// consume takes n messages with an ack each, after those of the warm-up. The clock starts when these are acked.
func (c *client) consume(ctx context.Context, queue string, n int) (measure, error) {
	if err := c.ch.Qos(*prefetch, 0, false); err != nil {
		return measure{}, err
	}
	deliveries, err := c.ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return measure{}, err
	}
	var began time.Time
	for i := range warmup + n {
		if i == warmup {
			began = time.Now()
		}
		select {
		case d, ok := <-deliveries:
			if !ok {
				return measure{}, fmt.Errorf("the consumer ended after %d messages", i)
			}
			if err := d.Ack(false); err != nil {
				return measure{}, err
			}
		case <-ctx.Done():
			return measure{}, fmt.Errorf("%d of %d messages came: %w", i, warmup+n, ctx.Err())
		}
	}
	return measure{n: n, took: time.Since(began)}, nil
}

// with runs a scenario with a client of its own and an empty queue.
func with(ctx context.Context, c contender, queue string, run func(*client) (measure, error)) (measure, error) {
	cl, err := dial(ctx, c.url)
	if err != nil {
		return measure{}, err
	}
	if _, err := cl.ch.QueueDeclare(queue, true, false, false, false, c.args); err != nil {
		cl.close()
		return measure{}, err
	}
	defer cl.close()
	return run(cl)
}

func publishing(ctx context.Context, c contender, queue string) (measure, error) {
	return with(ctx, c, queue, func(cl *client) (measure, error) {
		return cl.publish(ctx, queue, *publishers, inTurn())
	})
}

func consuming(ctx context.Context, c contender, queue string) (measure, error) {
	return with(ctx, c, queue, func(cl *client) (measure, error) {
		got, err := cl.consume(ctx, queue, inTurn())
		if err == nil {
			_, err = cl.ch.QueueDelete(queue, false, false, false)
		}
		return got, err
	})
}

func oneByOne(ctx context.Context, c contender, queue string) (measure, error) {
	queue += "-one"
	return with(ctx, c, queue, func(cl *client) (measure, error) {
		got, err := cl.publish(ctx, queue, 1, single())
		if err == nil {
			_, err = cl.ch.QueueDelete(queue, false, false, false)
		}
		return got, err
	})
}

// both publishes and consumes at once, on two connections.
func both(ctx context.Context, c contender, queue string) (measure, error) {
	queue += "-both"
	return with(ctx, c, queue, func(cl *client) (measure, error) {
		consumer, err := dial(ctx, c.url)
		if err != nil {
			return measure{}, err
		}
		ended := make(chan error, 1)
		began := time.Now()
		go func() {
			_, err := consumer.consume(ctx, queue, inTurn())
			ended <- err
		}()
		got, err := cl.publish(ctx, queue, *publishers, inTurn())
		err = errors.Join(err, <-ended)
		got.took, got.n = time.Since(began), got.n+warmup
		if err == nil {
			_, err = cl.ch.QueueDelete(queue, false, false, false)
		}
		consumer.close()
		return got, err
	})
}
