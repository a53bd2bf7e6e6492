package console

import "github.com/rehop/rehop/admin"

// consumersView is the consumers of a queue, or of all.
type consumersView struct {
	Queue     string // empty: of all queues
	Consumers []admin.Consumer
	Total     int
}

// maxConsumers is how many consumers a page has.
const maxConsumers = 1000

func (x *call) consumers() error {
	a, ctx, end, err := x.broker()
	if err != nil {
		return err
	}
	defer end()
	v := consumersView{Queue: x.r.URL.Query().Get("queue")}
	all, err := a.Consumers(ctx, v.Queue)
	if err != nil {
		return err
	}
	v.Total, v.Consumers = len(all), all[:min(len(all), maxConsumers)]
	return x.show("consumers", "Consumers", v)
}
