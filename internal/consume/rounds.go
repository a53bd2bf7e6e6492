package consume

import (
	"cmp"
	"sync"
)

// republishCounted republishes a message to the end of its queue before it is handled. It may be one
// that crashes its consumers, and its copy can come to this process at once. So the copy waits, see
// judge, until the broker has the ack of the original: otherwise both would be in the queue after the
// process has died, and each crash would double them again.
//
// It does not cancel the consumer, as isolate does. The quorum queues of RabbitMQ 4 count a delivery
// for each message that is on its way then, and those of 4.3 would dead-letter it if it brought along
// a count above their limit.
func (s *Subscription) republishCounted(h *Handling) {
	defer s.rounds.begin(cmp.Or(h.raw.MessageId, h.givenID))()
	s.republish(h)
	h.raw.Session.Sync()
}

// rounds are the messages of a subscription that are being republished, by their ids. Others with the
// same id wait too, which does no harm.
type rounds struct {
	running sync.Map // of chan struct{}, closed when the broker has the ack
}

// begin waits until no message with this id is being republished, and notes that one is until end is
// called.
func (r *rounds) begin(id string) (end func()) {
	ended := make(chan struct{})
	for other, busy := r.running.LoadOrStore(id, ended); busy; other, busy = r.running.LoadOrStore(id, ended) {
		<-other.(chan struct{})
	}
	return func() {
		r.running.Delete(id)
		close(ended)
	}
}

// await waits until no message with this id is being republished.
func (r *rounds) await(id string) {
	if running, busy := r.running.Load(id); busy {
		<-running.(chan struct{})
	}
}
