package rehop_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// After its last attempt a message goes to the failed queue. An operator lists it, fixes the cause,
// and replays it to the queue that it came from.
func Example_replay() {
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

	var repaired atomic.Bool
	seen := make(chan string, 10)
	_, err = client.Subscribe(ctx, rehop.Subscriber{
		Queue: "letters", Exchange: "post", Retry: rehop.NoRetry(),
		Handler: rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if !repaired.Load() {
				return errors.New("the printer is out of paper")
			}
			seen <- fmt.Sprintf("%s, attempt %d, replayed %d time", d.Key, d.Attempt, d.Replays)
			return nil
		}),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, key := range []string{"letter.1", "parcel.2"} {
		if err := client.Publish(ctx, rehop.Message{Exchange: "post", Key: key}); err != nil {
			fmt.Println(err)
			return
		}
	}

	operator, err := admin.Open(ctx, admin.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer operator.Close()
	for q := (admin.Queue{}); q.Failed < 2; {
		if q, err = operator.Queue(ctx, "letters"); err != nil {
			fmt.Println(err)
			return
		}
	}
	messages, err := operator.Failed(ctx, "letters", 10, admin.Filter{Text: "paper"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range messages {
		fmt.Printf("%s failed %d time: %s\n", m.Key, m.Attempts, m.Error)
	}

	repaired.Store(true)
	progress, err := operator.Replay(ctx, "letters", admin.Options{Filter: admin.Filter{Key: "letter.*"}, Rate: 100})
	fmt.Println(progress.Done, "replayed,", progress.Kept, "kept", err)
	fmt.Println(<-seen)
	// Output:
	// letter.1 failed 1 time: the printer is out of paper
	// parcel.2 failed 1 time: the printer is out of paper
	// 1 replayed, 1 kept <nil>
	// letter.1, attempt 1, replayed 1 time
}
