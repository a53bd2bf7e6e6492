package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// Errors of a shop that does not know of rehop.
var (
	errNoSuchOrder = errors.New("no such order")
	errPaidBefore  = errors.New("the order was paid before")
	errBankClosed  = errors.New("the bank is closed")
)

// Classify keeps in one place what each error means for a message. Handlers return plain errors.
func Example_classify() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := &broker.Server{} // or a RabbitMQ: then Config has its URL, and no Dial
	defer server.Close()
	results := make(chan string)
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial, Hooks: []rehop.Hooks{{
		OnResult: func(_ context.Context, d *rehop.Delivery, r rehop.Result) {
			results <- fmt.Sprintf("%s, attempt %d: %s", d.ID, d.Attempt, r.Outcome)
		},
	}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "payments",
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			switch {
			case d.ID == "unknown":
				return errNoSuchOrder
			case d.ID == "twice":
				return errPaidBefore
			case d.ID == "early" && d.Attempt == 1:
				return errBankClosed
			}
			return nil
		}),
		Classify: func(d *rehop.Delivery, err error) error {
			switch {
			case errors.Is(err, errPaidBefore):
				return nil // as good as handled
			case errors.Is(err, errNoSuchOrder):
				return rehop.Permanent(err)
			case errors.Is(err, errBankClosed):
				return rehop.RetryAfter(100*time.Millisecond, err)
			}
			return err // by the schedule
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, id := range []string{"unknown", "twice", "early"} {
		if err := client.Publish(ctx, rehop.Message{ID: id, Key: "payments"}); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(<-results)
	}
	fmt.Println(<-results)
	// Output:
	// unknown, attempt 1: failed
	// twice, attempt 1: done
	// early, attempt 1: retry
	// early, attempt 2: done
}
