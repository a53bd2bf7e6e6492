package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/broker"
)

// A message whose handler returns an error waits on the broker, not in the process, and comes back to
// this queue alone. Each step is a queue of its own, so a long wait never holds up a short one.
func Example_steppedRetry() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := &broker.Server{} // or a RabbitMQ: then Config has its URL, and no Dial
	defer server.Close()
	client, err := rehop.Open(ctx, rehop.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())

	done := make(chan struct{})
	var failedAt time.Time
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "payments",
		Retry: rehop.Steps(200*time.Millisecond, 400*time.Millisecond, time.Hour),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Attempt > 1 {
				fmt.Printf("not before its time: %t\n", time.Since(failedAt) >= 200*time.Millisecond)
			}
			fmt.Printf("attempt %d of %d, after %q\n", d.Attempt, d.MaxAttempts, d.LastError)
			if d.Attempt < 3 {
				failedAt = time.Now()
				return errors.New("the bank is closed")
			}
			close(done)
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := client.Publish(ctx, rehop.Message{Key: "payments", Body: []byte("7 €")}); err != nil {
		fmt.Println(err)
		return
	}
	<-done
	// Output:
	// attempt 1 of 4, after ""
	// not before its time: true
	// attempt 2 of 4, after "the bank is closed"
	// not before its time: true
	// attempt 3 of 4, after "the bank is closed"
}
