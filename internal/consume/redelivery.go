package consume

import (
	"slices"

	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// suspectAfter is how many unanswered deliveries make a message suspect of killing its consumers.
const suspectAfter = 3

// redelivery is what a delivery's mark "redelivered" says about this queue.
//
// Before RabbitMQ 3.13 the mark and x-delivery-count are of the queue that delivers. Newer releases
// carry them through dead-lettering:
//
//   - 4.0, from quorum queue to quorum queue: the first delivery of a dead letter has the mark and the count of all queues that it was rejected
//     in. The next delivery has those of its own queue.
//   - 4.3, all queues: a dead letter has the mark if it was delivered anywhere, and a quorum queue adds its own deliveries to the count. A
//     classic queue shows the mark and no count, and no mark if a consumer was waiting when the dead letter came.
//
// Two messages can look the same then, one that nobody here has seen and one that has killed a
// consumer. So such a message is published to the end of its queue (see uncarried) without the
// record of its deaths, and counted from then on. A forged record makes a message go round once. It
// does not keep it from being handled, or from being given up when it kills its consumers over and
// over.
type redelivery int

const (
	// first: nobody has died of the message since it came into this queue.
	first redelivery = iota
	// again: it was delivered from this queue before.
	again
	// carried: it was delivered before, from this queue or from one that dead-lettered it.
	carried
)

// redeliveryOf finds out what the mark of a delivery means.
func (s *Subscription) redeliveryOf(h *Handling) redelivery {
	headers := h.raw.Headers
	if !h.raw.Redelivered {
		return first
	}
	if _, carries := headers["x-last-death-queue"]; !carries || !slices.ContainsFunc(deaths(h), s.delivers) {
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
// suspect. Whether a queue that rehop did not declare counts at all only its messages tell, and a
// classic queue delivers what they say. What rehop itself has put into the queue has no count but
// the queue's.
func (s *Subscription) doubtful(h *Handling) bool {
	return s.settings.Declared.Passive && h.past.Queue != s.settings.Queue && !s.settings.Layout.RedeliveryFails() && s.countHere(h) >= min(suspectAfter, s.settings.CrashLimit)
}

// counts reports whether the queue counts how often it delivers a message without an answer, as
// quorum queues do. From RabbitMQ 4.3 on they do not count what was given back, but mark it as
// delivered before anyway. Of a queue that rehop did not declare, only its messages tell.
func (s *Subscription) counts(h *Handling) bool {
	_, marked := h.raw.Headers["x-delivery-count"]
	return layouts.IsQuorum(s.settings.Declared) || marked && s.settings.Declared.Passive
}

// returns is how often the message was delivered before without an answer. The broker's count is
// believed only of a message that it delivers again from this queue: any publisher can write one,
// and a dead letter can bring one along.
func (s *Subscription) returns(h *Handling) int {
	if h.mark == again && s.counts(h) {
		return h.past.Returns + brokerCount(h)
	}
	return h.past.Returns
}

// believed is how often the broker has delivered a message without an answer. RabbitMQ 4.3 does not
// count what was given back, and then leaves a count as a publisher has written it; but it says how
// often it has delivered the message, and the count cannot be higher.
func brokerCount(h *Handling) int {
	count := envelope.DeliveryCount(h.raw.Headers)
	if acquired, known := h.raw.Headers["x-acquired-count"]; known && count > envelope.Count(acquired) {
		return 0
	}
	return count
}

// uncarried reports whether a message must be sent round before it is handled because the broker's
// mark and count may be of another queue. It may not be where the count is small anyway: it grows
// if the message kills its consumers. A large count would also make a quorum queue of RabbitMQ 4.3
// drop the message when one consumer dies.
func (s *Subscription) mustRepublish(h *Handling) bool {
	return h.mark == carried &&
		(!s.counts(h) || s.settings.Layout.RedeliveryFails() || s.countHere(h) >= min(suspectAfter, s.settings.CrashLimit))
}

// foreseen is how often a message can have been delivered from this queue without an answer, at the
// most, as far as its counts can be told apart: the quorum queues of RabbitMQ 4 have counted each
// delivery that a consumer rejected elsewhere. A record of more rejections than the count has is of
// classic queues, or forged.
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

// deaths is the broker's record of how the message was dead-lettered since it was last published.
func deaths(h *Handling) []envelope.Death { return envelope.Deaths(rabbit.FromTable(h.raw.Headers)) }

// delivers reports whether a message can have been delivered from the queue that it died in. In
// those of rehop's own it waits, and nobody consumes.
func (s *Subscription) delivers(d envelope.Death) bool {
	if d.Delivered() {
		return true
	}
	ours := func(q topology.Queue) bool { return q.Name == d.Queue }
	waits := layouts.IsWaitQueue(d.Queue) || d.Queue != s.settings.Layout.FailedQueue(s.settings.Queue) && slices.ContainsFunc(s.form.Load().RetryPlan.Queues, ours)
	return !waits
}
