package mgmt

import (
	"maps"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/node"
)

// figures are the numbers of a queue, a channel or a virtual host that have a rate.
type figures struct {
	ready, unacked                                                            float64
	publish, deliver, deliverNoAck, get, getNoAck, getEmpty, ack, redelivered float64
	confirm, returned                                                         float64
}

func figuresOf(q *node.Queue) figures {
	s := q.Status()
	t := s.Totals
	return figures{float64(s.Ready), float64(s.Unacked), float64(t.Published), float64(t.Delivered), float64(t.DeliveredNoAck),
		float64(t.Got), float64(t.GotNoAck), float64(t.GotNothing), float64(t.Acked), float64(t.Redelivered), 0, 0}
}

// figuresOfTraffic are those of publishers.
func figuresOfTraffic(t node.Traffic) figures {
	return figures{publish: float64(t.Published), confirm: float64(t.Confirmed), returned: float64(t.Returned)}
}

// each calls do with pairs of the same number.
func (f *figures) each(other figures, do func(mine *float64, others float64)) {
	for _, pair := range []struct {
		mine   *float64
		others float64
	}{{&f.ready, other.ready}, {&f.unacked, other.unacked}, {&f.publish, other.publish}, {&f.deliver, other.deliver},
		{&f.deliverNoAck, other.deliverNoAck}, {&f.get, other.get}, {&f.getNoAck, other.getNoAck}, {&f.getEmpty, other.getEmpty},
		{&f.ack, other.ack}, {&f.redelivered, other.redelivered}, {&f.confirm, other.confirm}, {&f.returned, other.returned}} {
		do(pair.mine, pair.others)
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
	return describeRates([]rated{{"publish", f.publish, rates.publish}, {"confirm", f.confirm, rates.confirm}, {"return_unroutable", f.returned, rates.returned}})
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
	o["messages"], o["messages_details"] = int64(f.ready+f.unacked), object{"rate": rates.ready + rates.unacked}
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
	histories map[any]*history // by queue, channel and virtual host
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

// of returns the figures of a queue, and their rates between the last two samples.
func (s *sampler) of(q *node.Queue) (now, rates figures) {
	now = figuresOf(q)
	return now, s.note(q, sample{time.Now(), now})
}

// ofTraffic is of for the publishers of a channel or a virtual host.
func (s *sampler) ofTraffic(whose any, t node.Traffic) (now, rates figures) {
	now = figuresOfTraffic(t)
	return now, s.note(whose, sample{time.Now(), now})
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
