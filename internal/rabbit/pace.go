package rabbit

import "time"

// A channel of RabbitMQ keeps acks of a quorum queue back while 32 of its commands are under way, and forgets them when it
// closes (rabbit_fifo_client): their messages would be delivered again. Meanwhile it answers other methods, so an answer does not
// show that the queue has the acks. So after more than ackBurst frames, the channel stays open until none was sent for ackRest.
// The broker needs some milliseconds for them. A window of a Sweep is certain of it without that; see commits.
const (
	ackBurst = 16
	ackRest  = 250 * time.Millisecond
	// unheld is the largest prefetch with which no ack is kept back: each that is under way is of another unacked message.
	unheld = 32
)

// pace counts the acks of a channel.
type pace struct {
	free  bool      // none is ever kept back
	burst int       // frames that were sent, each less than ackRest after the one before
	last  time.Time // when the last one was sent
}

// sent notes that frames were sent.
func (p *pace) sent(frames int) {
	if frames == 0 {
		return
	}
	now := time.Now()
	if now.Sub(p.last) >= ackRest {
		p.burst = 0
	}
	p.burst += frames
	p.last = now
}

// rest is how long the channel must stay open so that the broker does not forget acks.
func (p *pace) rest() time.Duration {
	if p.free || p.burst <= ackBurst {
		return 0
	}
	return ackRest - time.Since(p.last)
}
