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

// Options say what load is put on which broker.
type Options struct {
	// URLs of the broker, tried in turn.
	URLs []string
	// TLS is used for amqps URLs.
	TLS *tls.Config
	// ConnectTimeout bounds one try to connect.
	ConnectTimeout time.Duration

	Mode Mode
	// For is how long it takes. In the mode Consume, publishing takes as long beforehand.
	For time.Duration
	// Size is that of a body, in bytes.
	Size int
	// Publishers is how many channels publish, and Window how many messages each has under way without a confirm.
	Publishers, Window int
	// Consumers is how many channels consume, and Prefetch how many messages each has under way without an ack.
	Consumers, Prefetch int
	// QueueType is quorum or classic.
	QueueType string
	// Transient messages are not kept through a restart of the broker by classic queues.
	Transient bool
	// Progress is called from time to time with the messages so far. It may be nil.
	Progress func(published, consumed int64)

	// patience is how long confirms and deliveries are waited for after the time is up, and how long cleaning up may take. Default: 10 s.
	patience time.Duration
}

// maxSize keeps a typing error from asking for all memory there is.
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
