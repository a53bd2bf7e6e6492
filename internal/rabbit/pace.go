package rabbit

import "time"

// A channel of RabbitMQ keeps acks of a quorum queue back while 32 of its commands are under way, and forgets them when it
// closes (rabbit_fifo_client): their messages would be delivered again. So after more than ackBurst frames, the channel stays
// open until none was sent for ackRest. The broker needs some milliseconds for them.
const (
	ackBurst = 16
	ackRest  = 250 * time.Millisecond
)

// pace counts the acks of a channel.
type pace struct {
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
	if p.burst <= ackBurst {
		return 0
	}
	return ackRest - time.Since(p.last)
}
