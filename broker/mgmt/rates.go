package mgmt

import (
	"sync"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
)

// figures are the numbers of a queue, a channel, a virtual host or the broker that have a rate.
type figures [figureCount]float64

const (
	ready = iota // messages, as are the next two
	unacked
	otherMessages
	published
	delivered
	deliveredNoAck
	got
	gotNoAck
	gotNothing
	acked
	redelivered
	confirmed
	returned
	dropped
	connectionsOpened
	connectionsClosed
	channelsOpened
	channelsClosed
	queuesDeclared
	queuesCreated
	queuesDeleted
	figureCount
)

// figureNames are RabbitMQ's names.
var figureNames = [...]string{published: "publish", delivered: "deliver", deliveredNoAck: "deliver_no_ack", got: "get", gotNoAck: "get_no_ack",
	gotNothing: "get_empty", acked: "ack", redelivered: "redeliver", confirmed: "confirm", returned: "return_unroutable", dropped: "drop_unroutable",
	connectionsOpened: "connection_created", connectionsClosed: "connection_closed", channelsOpened: "channel_created", channelsClosed: "channel_closed",
	queuesDeclared: "queue_declared", queuesCreated: "queue_created", queuesDeleted: "queue_deleted"}

// addMessages adds the messages in a queue.
func (f *figures) addMessages(s queue.Status) {
	f[ready] += float64(s.Ready)
	f[unacked] += float64(s.Unacked)
	f[otherMessages] += float64(s.Kept + s.Delayed)
}

// figuresOfTotals are the figures of what has happened in queues.
func figuresOfTotals(t queue.Totals) figures {
	return figures{published: float64(t.Published), delivered: float64(t.Delivered), deliveredNoAck: float64(t.DeliveredNoAck), got: float64(t.Got),
		gotNoAck: float64(t.GotNoAck), gotNothing: float64(t.GotNothing), acked: float64(t.Acked), redelivered: float64(t.Redelivered)}
}

// figuresOfTraffic are the figures of publishers.
func figuresOfTraffic(t node.Traffic) figures {
	return figures{published: float64(t.Published), confirmed: float64(t.Confirmed), returned: float64(t.Returned), dropped: float64(t.Dropped)}
}

// figuresOfVhost add up what has happened in all queues, including deleted ones, and what publishers did: a message for
// several queues is published once.
func figuresOfVhost(v *node.Vhost) (f figures) {
	for _, t := range v.Totals() {
		f.add(figuresOfTotals(t))
	}
	f[published] = 0
	f.add(figuresOfTraffic(v.Traffic()))
	for _, q := range v.Queues() {
		f.addMessages(q.Status())
	}
	return f
}

// figuresOfChurn are the figures of what was opened, closed, created and deleted.
func figuresOfChurn(t node.Churn) figures {
	return figures{connectionsOpened: float64(t.ConnectionsOpened), connectionsClosed: float64(t.ConnectionsClosed), channelsOpened: float64(t.ChannelsOpened),
		channelsClosed: float64(t.ChannelsClosed), queuesDeclared: float64(t.QueuesDeclared), queuesCreated: float64(t.QueuesCreated), queuesDeleted: float64(t.QueuesDeleted)}
}

func (f *figures) add(other figures) {
	for i := range f {
		f[i] += other[i]
	}
}

func (f figures) sum(which ...int) (sum float64) {
	for _, i := range which {
		sum += f[i]
	}
	return sum
}

// happened reports whether a client has ever published or requested a message.
func (f figures) happened() bool {
	return f.sum(published, delivered, deliveredNoAck, got, gotNoAck, gotNothing, acked) > 0
}

// describe adds some figures and their rates to an object.
func (f figures) describe(o object, rates figures, which ...int) object {
	for _, i := range which {
		o[figureNames[i]], o[figureNames[i]+"_details"] = int64(f[i]), object{"rate": rates[i]}
	}
	return o
}

// stats is RabbitMQ's message_stats of queues.
func (f figures) stats(rates figures) object {
	all := []int{delivered, deliveredNoAck, got, gotNoAck}
	o := object{"deliver_get": int64(f.sum(all...)), "deliver_get_details": object{"rate": rates.sum(all...)}}
	return f.describe(o, rates, published, delivered, deliveredNoAck, got, gotNoAck, gotNothing, acked, redelivered)
}

// publisherStats adds RabbitMQ's message_stats of channels.
func (f figures) publisherStats(o object, rates figures) object {
	return f.describe(o, rates, published, confirmed, returned, dropped)
}

// churnRates is RabbitMQ's churn_rates.
func (f figures) churnRates(rates figures) object {
	return f.describe(object{}, rates, connectionsOpened, connectionsClosed, channelsOpened, channelsClosed, queuesDeclared, queuesCreated, queuesDeleted)
}

// allStats is RabbitMQ's message_stats of a virtual host or the broker.
func (f figures) allStats(rates figures) object { return f.publisherStats(f.stats(rates), rates) }

// messages adds how many messages there are, and how fast that changes.
func (f figures) messages(o object, rates figures) {
	all := []int{ready, unacked, otherMessages}
	o["messages"], o["messages_details"] = int64(f.sum(all...)), object{"rate": rates.sum(all...)}
	o["messages_ready"], o["messages_ready_details"] = int64(f[ready]), object{"rate": rates[ready]}
	o["messages_unacknowledged"], o["messages_unacknowledged_details"] = int64(f[unacked]), object{"rate": rates[unacked]}
}

// Bounds of the samples that are kept for rates.
const (
	sampleGap    = time.Second     // between samples, at least
	sampleLife   = 5 * time.Minute // after the last request
	maxHistories = 100_000         // more have no rates
)

// sampler keeps figures from request to request, so that nothing has to run between requests.
type sampler struct {
	mu        sync.Mutex
	histories map[any]*history // by queue, channel, virtual host and node
	swept     time.Time
}

// history is the last two samples of one queue, channel, virtual host or node.
type history struct {
	before, last sample
}

type sample struct {
	at time.Time
	figures
}

// of returns the rates of figures between the last two samples.
func (s *sampler) of(whose any, now figures) (rates figures) {
	return s.note(whose, sample{time.Now(), now})
}

func (s *sampler) note(whose any, now sample) (rates figures) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now.at)
	h := s.histories[whose]
	switch {
	case h == nil && len(s.histories) >= maxHistories:
		return rates
	case h == nil:
		s.histories[whose] = &history{last: now}
		return rates
	case now.at.Sub(h.last.at) >= sampleGap:
		h.before, h.last = h.last, now
	}
	if h.before.at.IsZero() {
		return rates
	}
	for i := range rates {
		rates[i] = (h.last.figures[i] - h.before.figures[i]) / h.last.at.Sub(h.before.at).Seconds()
	}
	return rates
}

// sweep removes histories that were not requested for a while. The sampler is locked.
func (s *sampler) sweep(now time.Time) {
	if s.histories == nil {
		s.histories = make(map[any]*history)
	}
	if now.Sub(s.swept) < time.Minute {
		return
	}
	s.swept = now
	for whose, h := range s.histories {
		if now.Sub(h.last.at) > sampleLife {
			delete(s.histories, whose)
		}
	}
}
