package console

import (
	"errors"
	"net/http"

	"github.com/rehop/rehop/admin"
)

// queuesView is all queues of rehop.
type queuesView struct {
	Queues []admin.Queue
	Shared []admin.QueueSize // with messages without a queue
}

func (x *call) queues() error {
	o, _, err := x.console.figures.get(x.r.Context())
	if err != nil {
		return err
	}
	v := queuesView{Queues: o.Queues, Shared: []admin.QueueSize{{Name: orphansQueue, Messages: o.Orphans}, {Name: unroutedQueue, Messages: o.Unrouted}}}
	v.Shared = append(v.Shared, o.Recovered...)
	return x.show("queues", "Queues", v)
}

// queueView is one queue.
type queueView struct {
	admin.Queue
	Known   bool // to the management API
	Args    []condition
	Policy  string
	Delayed int // in the failed queue, which nobody can read now
}

func (x *call) queue() error {
	name := x.r.URL.Query().Get("name")
	if name == "" {
		return &fault{status: http.StatusBadRequest, text: "The address has no name of a queue.", hint: "Choose one on the page Queues."}
	}
	a, ctx, end, err := x.broker()
	if err != nil {
		return err
	}
	defer end()
	q, err := a.Queue(ctx, name)
	if err != nil {
		return err
	}
	v := queueView{Queue: q}
	live, err := a.Live(ctx)
	if err != nil && !errors.Is(err, admin.ErrNoManagement) {
		return err
	}
	if l, there := live.Queue(name); err == nil && there {
		v.Known, v.Type, v.Unacked, v.Policy = true, l.Type, l.Unacked, l.Policy
		v.Args = argumentsOf(l.Args)
		if v.Delayed, err = a.Delayed(ctx, name); err != nil && !errors.Is(err, admin.ErrNoQueue) {
			return err
		}
	}
	return x.show("queue", "Queue", v)
}
