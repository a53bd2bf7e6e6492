package consume

import (
	"cmp"
	"sync"
)

// sendRound sends a message to the end of its queue before it is handled. It may be one that kills
// its consumers, and its copy can come to this process at once. So the copy waits, see admit, until
// the broker has the ack of the original: otherwise both would be in the queue after the process
// has died, and each death would double them again.
//
// It does not end the consumer, as isolate does. The quorum queues of RabbitMQ 4 count a delivery
// for each message that is on its way then, and those of 4.3 would put it into the failed queue if
// it brought along a count that is above their limit.
func (s *Subscription) republishCounted(h *Handling) {
	defer s.rounds.begin(cmp.Or(h.raw.MessageId, h.givenID))()
	s.republish(h)
	h.raw.Session.Sync()
}

// rounds are the messages of a subscription that are being sent round, by their ids. Others with
// the same id wait too, which does no harm.
type rounds struct {
	mu    sync.Mutex
	going map[string]chan struct{} // closed when the broker has the ack
}

// begin waits until no message with this id is being sent round, and notes that one is until end is
// called.
func (r *rounds) begin(id string) (end func()) {
	ended := make(chan struct{})
	for {
		r.await(id)
		r.mu.Lock()
		if r.going[id] == nil {
			break
		}
		r.mu.Unlock()
	}
	defer r.mu.Unlock()
	if r.going == nil {
		r.going = make(map[string]chan struct{})
	}
	r.going[id] = ended
	return func() {
		r.mu.Lock()
		delete(r.going, id)
		r.mu.Unlock()
		close(ended)
	}
}

// await waits until no message with this id is being sent round.
func (r *rounds) await(id string) {
	r.mu.Lock()
	going := r.going[id]
	r.mu.Unlock()
	if going != nil {
		<-going
	}
}
