package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/rehop/rehop"
)

// Forward is a handler that publishes a copy of each message to another exchange. The message is handled when the broker has confirmed
// the copy, which has the id, the properties and the headers of the original.
//
// Delivery is at least once, so a message may be forwarded again, with the same id.
//
// A Forward is safe for concurrent use. Do not change its fields after its first use.
type Forward struct {
	// Client publishes the copies. It can be connected to another broker. Required.
	Client Publisher
	// Exchange receives the copies. Default: the default exchange, where Key is the name of a queue. Exchange and Key cannot both be
	// empty.
	Exchange string
	// Key is the routing key of the copies. Default: that of the message.
	Key string
	// Timeout is how long the broker may take to confirm. If it takes longer, the subscription pauses. Keep it below the subscription's
	// timeout. Default: 30 s.
	Timeout time.Duration
	// MaxHops is how often a message may be forwarded. A message beyond that is in a loop and goes to the failed queue. The header
	// x-rehop-hops counts. Default: 16.
	MaxHops int
}

// Publisher publishes the copies of a Forward. *rehop.Client implements it.
type Publisher interface {
	Publish(ctx context.Context, m rehop.Message) error
}

var _ rehop.Handler = (*Forward)(nil)

// HeaderHops is the header that counts how often a message was forwarded.
const HeaderHops = "x-rehop-hops"

// Validate returns all errors in the settings.
func (f *Forward) Validate() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("target: "+format, args...)) }
	if f.Client == nil {
		fault("Client is nil")
	}
	if len(f.Exchange) > 255 || len(f.Key) > 255 {
		fault("Exchange has %d bytes and Key %d, AMQP allows 255", len(f.Exchange), len(f.Key))
	}
	if f.Exchange == "" && f.Key == "" {
		fault("Exchange and Key are both empty: a message would return to where it came from")
	}
	if f.Timeout < 0 {
		fault("Timeout %v must not be negative", f.Timeout)
	}
	if f.MaxHops < 0 {
		fault("MaxHops %d must not be negative", f.MaxHops)
	}
	return errors.Join(faults...)
}

// String returns where messages go, as in: forward to exchange "order".
func (f *Forward) String() string {
	switch {
	case f.Exchange == "":
		return fmt.Sprintf("forward to queue %q", f.Key)
	case f.Key == "":
		return fmt.Sprintf("forward to exchange %q", f.Exchange)
	}
	return fmt.Sprintf("forward to exchange %q with key %q", f.Exchange, f.Key)
}

// Handle publishes a copy of the message and waits for the confirm.
func (f *Forward) Handle(ctx context.Context, d *rehop.Delivery) error {
	if err := f.Validate(); err != nil {
		return rehop.Unavailable(err) // not the message's fault
	}
	hops, most := hopsOf(d.Headers)+1, cmp.Or(f.MaxHops, 16)
	if hops > most {
		return rehop.Permanent(fmt.Errorf("%s: it has been forwarded %d times already, and may be in a loop", f, hops-1))
	}
	m := d.Message
	m.ID, m.Exchange, m.Key = d.StableID(), f.Exchange, cmp.Or(f.Key, d.Key)
	m.Headers = make(map[string]any, len(d.Headers)+1)
	maps.Copy(m.Headers, d.Headers)
	m.Headers[HeaderHops] = int64(hops)
	delete(m.Headers, "CC") // the broker has already made these copies
	limited, cancel := context.WithTimeout(ctx, cmp.Or(f.Timeout, 30*time.Second))
	defer cancel()
	err := f.Client.Publish(limited, m)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rehop.ErrTooLarge), errors.Is(err, rehop.ErrInvalid):
		return rehop.Permanent(fmt.Errorf("%s: %w", f, err))
	case ctx.Err() == nil && (errors.Is(err, rehop.ErrBlocked) || errors.Is(err, rehop.ErrDisconnected) || errors.Is(err, rehop.ErrUnknown)):
		return rehop.Unavailable(fmt.Errorf("%s: %w", f, err))
	}
	return fmt.Errorf("%s: %w", f, err)
}

// hopsOf reads the header, whatever its integer type.
func hopsOf(headers map[string]any) int {
	switch n := headers[HeaderHops].(type) {
	case int64:
		return int(max(0, min(n, 1<<20)))
	case int32:
		return int(max(0, n))
	case int:
		return max(0, n)
	}
	return 0
}
