package consume

import (
	"slices"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// suspectAfter is how many unanswered deliveries make a message suspect of crashing its consumers.
const suspectAfter = 3

// redelivery is what the redelivered flag of a delivery means for this queue.
//
// Before RabbitMQ 3.13 the flag and x-delivery-count are of the queue that delivers. Newer releases
// keep them when a message is dead-lettered:
//
//   - 4.0, from quorum queue to quorum queue: the first delivery of a dead letter has the flag and the
//     count of all queues that it was rejected in. The next delivery has those of its own queue.
//   - 4.3, all queues: a dead letter has the flag if it was delivered anywhere, and a quorum queue adds
//     its own deliveries to the count. A classic queue shows the flag and no count, and no flag if a
//     consumer was waiting when the dead letter came.
//
// A message that was never delivered here and one that has crashed a consumer can look the same then.
// So such a message is republished to the end of its queue (see mustRepublish) without its x-death
// record, and counted from then on. A forged record makes rehop republish a message once. The message
// is handled anyway, and still goes to the failed queue if it crashes its consumers repeatedly.
type redelivery int

const (
	first   redelivery = iota // it has not crashed a consumer since it came into this queue
	again                     // it was delivered from this queue before
	carried                   // it was delivered before, from this queue or from one that dead-lettered it
)

// redeliveryOf is what the redelivered flag of a delivery means.
func (s *Subscription) redeliveryOf(h *Handling) redelivery {
	if !h.raw.Redelivered {
		return first
	}
	if _, carries := h.raw.Headers["x-last-death-queue"]; !carries || !slices.ContainsFunc(deaths(h), s.delivers) {
		if s.doubtful(h) {
			return carried
		}
		return again
	}
	if s.counts(h) && s.countHere(h) == 0 && !s.settings.Layout.RedeliveryFails() {
		return first
	}
	return carried
}

// doubtful reports whether a publisher may have written the count of a message that would make it
// suspect. Only its messages show whether a queue that rehop did not declare counts, and a classic
// queue passes on the header of a publisher. Messages that rehop published to the queue have no count
// but the queue's.
func (s *Subscription) doubtful(h *Handling) bool {
	return s.settings.Declared.Passive && h.past.Queue != s.settings.Queue && !s.settings.Layout.RedeliveryFails() && s.countHere(h) >= min(suspectAfter, s.settings.CrashLimit)
}

// counts reports whether the queue counts how often it delivers a message without an answer, as
// quorum queues do. From RabbitMQ 4.3 on they do not count requeued messages, but set the redelivered
// flag anyway. For a queue that rehop did not declare, only the header of the message shows it.
func (s *Subscription) counts(h *Handling) bool {
	_, marked := h.raw.Headers["x-delivery-count"]
	return layouts.IsQuorum(s.settings.Declared) || marked && s.settings.Declared.Passive
}

// returns is how often the message was delivered before without an answer. The broker's count is used
// only for a message that it redelivers from this queue: any publisher can write one, and a dead letter
// can bring one along.
func (s *Subscription) returns(h *Handling) int {
	if h.mark == again && s.counts(h) {
		return h.past.Returns + brokerCount(h)
	}
	return h.past.Returns
}

// brokerCount is how often the broker has delivered a message without an answer. RabbitMQ 4.3 does not
// count requeued messages, and then does not overwrite the count of a publisher; but x-acquired-count
// is how often it has delivered the message, and the count cannot be higher.
func brokerCount(h *Handling) int {
	count := envelope.DeliveryCount(h.raw.Headers)
	if acquired, known := h.raw.Headers["x-acquired-count"]; known && count > envelope.Count(acquired) {
		return 0
	}
	return count
}

// mustRepublish reports whether a message must be republished before it is handled because the broker's
// flag and count may be of another queue. That is not necessary while the count is small: it grows if
// the message crashes its consumers. A large count would also make a quorum queue of RabbitMQ 4.3 drop
// the message when one consumer dies.
func (s *Subscription) mustRepublish(h *Handling) bool {
	return h.mark == carried &&
		(!s.counts(h) || s.settings.Layout.RedeliveryFails() || s.countHere(h) >= min(suspectAfter, s.settings.CrashLimit))
}

// countHere is how often a message can have been delivered from this queue without an answer, at most:
// the quorum queues of RabbitMQ 4 have also counted each delivery that a consumer rejected elsewhere. A
// record of more rejections than the count is of classic queues, or forged.
func (s *Subscription) countHere(h *Handling) int {
	count, rejected := envelope.DeliveryCount(h.raw.Headers), 0
	for _, d := range deaths(h) {
		if d.Delivered() {
			rejected += d.Count
		}
	}
	if rejected > count {
		return count
	}
	return count - rejected
}

// deaths are the entries of x-death since the message was last published.
func deaths(h *Handling) []envelope.Death { return envelope.Deaths(rabbit.FromTable(h.raw.Headers)) }

// delivers reports whether a message can have been delivered from the queue that dead-lettered it.
// Delay queues have no consumers.
func (s *Subscription) delivers(d envelope.Death) bool {
	if d.Delivered() {
		return true
	}
	ours := func(q topology.Queue) bool { return q.Name == d.Queue }
	waits := layouts.IsWaitQueue(d.Queue) || d.Queue != s.settings.Layout.FailedQueue(s.settings.Queue) && slices.ContainsFunc(s.form.Load().RetryPlan.Queues, ours)
	return !waits
}
