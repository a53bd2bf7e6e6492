package mgmt

import (
	"maps"
	"sync"
	"time"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/queue"
)

// figures are the numbers of a queue, a channel, a virtual host or the broker that have a rate.
type figures struct {
	ready, unacked, others                                                    float64
	publish, deliver, deliverNoAck, get, getNoAck, getEmpty, ack, redelivered float64
	confirm, returned, dropped                                                float64
	churn                                                                     [len(churned)]float64
}

// churned is what comes and goes, in RabbitMQ's words. It is never changed.
var churned = [...]string{"connection_created", "connection_closed", "channel_created", "channel_closed", "queue_declared", "queue_created", "queue_deleted"}

func figuresOf(q *node.Queue) figures {
	s := q.Status()
	f := figuresOfTotals(s.Totals)
	f.hold(s)
	return f
}

// hold adds the messages that a queue has.
func (f *figures) hold(s queue.Status) {
	f.ready += float64(s.Ready)
	f.unacked += float64(s.Unacked)
	f.others += float64(s.Kept + s.Delayed)
}

// figuresOfTotals are those of what happens in queues.
func figuresOfTotals(t queue.Totals) figures {
	return figures{publish: float64(t.Published), deliver: float64(t.Delivered), deliverNoAck: float64(t.DeliveredNoAck),
		get: float64(t.Got), getNoAck: float64(t.GotNoAck), getEmpty: float64(t.GotNothing), ack: float64(t.Acked), redelivered: float64(t.Redelivered)}
}

// figuresOfTraffic are those of publishers.
func figuresOfTraffic(t node.Traffic) figures {
	return figures{publish: float64(t.Published), confirm: float64(t.Confirmed), returned: float64(t.Returned), dropped: float64(t.Dropped)}
}

// figuresOfVhost add up what has happened in all queues, also in those that are gone, and what publishers did: a message that goes to several
// queues is published once.
func figuresOfVhost(v *node.Vhost) figures {
	var f figures
	for _, t := range v.Totals() {
		f.add(figuresOfTotals(t))
	}
	f.publish = 0
	f.add(figuresOfTraffic(v.Traffic()))
	for _, q := range v.Queues() {
		f.hold(q.Status())
	}
	return f
}

// figuresOfChurn are those of what comes and goes.
func figuresOfChurn(t node.Churn) (f figures) {
	for i, n := range [...]uint64{t.ConnectionsOpened, t.ConnectionsClosed, t.ChannelsOpened, t.ChannelsClosed, t.QueuesDeclared, t.QueuesCreated, t.QueuesDeleted} {
		f.churn[i] = float64(n)
	}
	return f
}

// each calls do with pairs of the same number.
func (f *figures) each(other figures, do func(mine *float64, others float64)) {
	for _, pair := range []struct {
		mine   *float64
		others float64
	}{{&f.ready, other.ready}, {&f.unacked, other.unacked}, {&f.others, other.others}, {&f.publish, other.publish}, {&f.deliver, other.deliver},
		{&f.deliverNoAck, other.deliverNoAck}, {&f.get, other.get}, {&f.getNoAck, other.getNoAck}, {&f.getEmpty, other.getEmpty},
		{&f.ack, other.ack}, {&f.redelivered, other.redelivered}, {&f.confirm, other.confirm}, {&f.returned, other.returned}, {&f.dropped, other.dropped}} {
		do(pair.mine, pair.others)
	}
	for i := range f.churn {
		do(&f.churn[i], other.churn[i])
	}
}

// add adds the other figures.
func (f *figures) add(other figures) {
	f.each(other, func(mine *float64, others float64) { *mine += others })
}

// happened reports whether anybody ever asked for a message or sent one.
func (f figures) happened() bool {
	return f.publish+f.deliver+f.deliverNoAck+f.get+f.getNoAck+f.getEmpty+f.ack > 0
}

// rated is a figure with its rate.
type rated struct {
	name         string
	figure, rate float64
}

// stats returns figures and their rates as RabbitMQ's message_stats of queues.
func (f figures) stats(rates figures) object {
	return describeRates([]rated{{"publish", f.publish, rates.publish}, {"deliver", f.deliver, rates.deliver}, {"deliver_no_ack", f.deliverNoAck, rates.deliverNoAck},
		{"get", f.get, rates.get}, {"get_no_ack", f.getNoAck, rates.getNoAck}, {"get_empty", f.getEmpty, rates.getEmpty}, {"ack", f.ack, rates.ack},
		{"redeliver", f.redelivered, rates.redelivered},
		{"deliver_get", f.deliver + f.deliverNoAck + f.get + f.getNoAck, rates.deliver + rates.deliverNoAck + rates.get + rates.getNoAck}})
}

// publisherStats returns what publishers did and were told as RabbitMQ's message_stats of channels.
func (f figures) publisherStats(rates figures) object {
	return describeRates([]rated{{"publish", f.publish, rates.publish}, {"confirm", f.confirm, rates.confirm}, {"return_unroutable", f.returned, rates.returned},
		{"drop_unroutable", f.dropped, rates.dropped}})
}

// churnRates returns what has come and gone as RabbitMQ's churn_rates.
func (f figures) churnRates(rates figures) object {
	var all []rated
	for i, name := range churned {
		all = append(all, rated{name, f.churn[i], rates.churn[i]})
	}
	return describeRates(all)
}

// allStats is both, for a virtual host or the whole broker.
func (f figures) allStats(rates figures) object {
	o := f.stats(rates)
	maps.Copy(o, f.publisherStats(rates))
	return o
}

func describeRates(all []rated) object {
	o := object{}
	for _, e := range all {
		o[e.name], o[e.name+"_details"] = int64(e.figure), object{"rate": e.rate}
	}
	return o
}

// messages adds how many messages there are, and how fast that changes.
func (f figures) messages(o object, rates figures) {
	o["messages"], o["messages_details"] = int64(f.ready+f.unacked+f.others), object{"rate": rates.ready + rates.unacked + rates.others}
	o["messages_ready"], o["messages_ready_details"] = int64(f.ready), object{"rate": rates.ready}
	o["messages_unacknowledged"], o["messages_unacknowledged_details"] = int64(f.unacked), object{"rate": rates.unacked}
}

// Bounds of what is remembered for rates.
const (
	sampleGap    = time.Second     // between samples, at least
	sampleLife   = 5 * time.Minute // after the last request
	maxHistories = 100_000         // the others have no rates
)

// sampler remembers figures of queues from request to request, so that nothing has to run between them.
type sampler struct {
	mu        sync.Mutex
	histories map[any]*history // by queue, channel, virtual host and node
	swept     time.Time
}

// history is the last two samples of one of them.
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
		return figures{}
	case h == nil:
		s.histories[whose] = &history{last: now}
		return figures{}
	case now.at.Sub(h.last.at) >= sampleGap:
		h.before, h.last = h.last, now
	}
	if h.before.at.IsZero() {
		return figures{}
	}
	rates = h.last.figures
	seconds := h.last.at.Sub(h.before.at).Seconds()
	rates.each(h.before.figures, func(mine *float64, before float64) { *mine = (*mine - before) / seconds })
	return rates
}

// sweep forgets queues that nobody asks for any more. The sampler is locked.
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
