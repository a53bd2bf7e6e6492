package load

import (
	"crypto/tls"
	"errors"
	"fmt"
	"time"
)

// Mode is what is measured.
type Mode string

// The modes.
const (
	Both    Mode = "both"    // publishing and consuming at the same time
	Publish Mode = "publish" // publishing alone
	Consume Mode = "consume" // consuming what was published before
)

// Options are the settings of a run.
type Options struct {
	// URLs of the broker, tried in turn.
	URLs []string
	// TLS is used for amqps URLs.
	TLS *tls.Config
	// ConnectTimeout bounds one try to connect.
	ConnectTimeout time.Duration

	Mode Mode
	// For is the duration of the run. In mode Consume, publishing before it takes as long.
	For time.Duration
	// Size is the size of a body in bytes.
	Size int
	// Publishers is how many channels publish, and Window how many unconfirmed messages each may have.
	Publishers, Window int
	// Consumers is how many channels consume, and Prefetch how many unacked messages each may have.
	Consumers, Prefetch int
	// QueueType is quorum or classic.
	QueueType string
	// Transient messages do not survive a restart of the broker in classic queues.
	Transient bool
	// Progress is called from time to time with the messages so far. It may be nil.
	Progress func(published, consumed int64)

	// settleTimeout is how long to wait for confirms and deliveries after the run, and for the deletion of the queue. Default: 10 s.
	settleTimeout time.Duration
}

// maxSize prevents a typing error from using all memory.
const maxSize = 128 << 20

// Validate reports all faults at once.
func (o Options) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if o.Mode != Both && o.Mode != Publish && o.Mode != Consume {
		fault("mode %q must be %s, %s or %s", o.Mode, Both, Publish, Consume)
	}
	if o.QueueType != "quorum" && o.QueueType != "classic" {
		fault("queue type %q must be quorum or classic", o.QueueType)
	}
	if o.For <= 0 {
		fault("the time %v must be positive", o.For)
	}
	if o.Size < 0 || o.Size > maxSize {
		fault("the size %d must be from 0 to %d bytes", o.Size, maxSize)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"publishers", o.Publishers}, {"window", o.Window}, {"consumers", o.Consumers}, {"prefetch", o.Prefetch}} {
		if n.value < 1 || n.value > 10_000 {
			fault("%s: %d must be from 1 to 10000", n.name, n.value)
		}
	}
	return errors.Join(faults...)
}
