package rehop_test

import (
	"context"
	"fmt"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
)

// A plan of all that is to be on the broker is a value. Before a new version of a service goes live, compare it with
// what is there: here somebody has changed the queue's time to live, which only a new queue can have.
func Example_topology() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := &broker.Server{} // or a RabbitMQ: then Config has its URL, and no Dial
	defer server.Close()
	operator, err := admin.Open(ctx, admin.Config{Dial: server.Dial})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer operator.Close()

	letters := rehop.Subscriber{Queue: "letters", Exchange: "post", MessageTTL: time.Hour}
	plan, err := rehop.Topology(rehop.Config{}, letters)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := operator.Apply(ctx, plan, admin.ApplyOptions{}); err != nil {
		fmt.Println(err)
		return
	}

	letters.MessageTTL = 2 * time.Hour
	next, err := rehop.Topology(rehop.Config{}, letters)
	if err != nil {
		fmt.Println(err)
		return
	}
	diff, err := operator.Diff(ctx, next)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range diff {
		fmt.Println(d)
	}
	// Output:
	// differs: queue "letters": x-message-ttl is 3600000, planned is 7200000; use it unchanged as an existing queue, or migrate it; until then, declaring it fails
	// unchecked: all bindings; AMQP alone shows neither bindings nor policies: set the address of the management API
}
