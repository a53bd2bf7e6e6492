package delays

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/internal/topologies"
	"github.com/rehop/rehop/topology"
)

// Delays returns the addresses at which messages wait, and declares what they need there.
type Delays struct {
	// Declarer declares on the connection that the messages are published on.
	Declarer *Declarer
	// Native is the layout of the delay queues.
	Native layouts.Native
	// Public turns the error of a declaration into one for users of package rehop.
	Public func(error) error
}

// Back is the address from which a message returns to its queue after a delay, with its own routing
// key or with that of the queue. What it needs is declared unless that was done since a time.
func (d *Delays) Back(ctx context.Context, delay time.Duration, keepsKey bool, since time.Time) (layouts.Address, error) {
	to := layouts.ToQueue
	if keepsKey {
		to = layouts.ToHome
	}
	return d.cascade(ctx, delay, to, since)
}

// Destination is a queue that a message is published to by its name, to arrive after a delay.
type Destination struct {
	Queue string
	// Temporary queues are deleted automatically. They get no landing queue, which would outlive them.
	Temporary bool
	// Bound: a subscription has already bound the queue for messages that return.
	Bound bool
}

// ToQueue is the address and the routing key with which a message goes to a queue after a delay.
func (d *Delays) ToQueue(ctx context.Context, delay time.Duration, to Destination) (layouts.Address, string, error) {
	key, plan := layouts.LandingQueue(to.Queue), func() topology.Plan { return d.Native.LaterToQueue(to.Queue) }
	switch {
	case to.Bound:
		key, plan = to.Queue, func() topology.Plan { return topology.Plan{} }
	case to.Temporary:
		key, plan = to.Queue, func() topology.Plan { return d.Native.LaterToTemporary(to.Queue) }
	}
	address, err := d.later(ctx, delay, layouts.ToQueue, key, plan)
	return address, key, err
}

// ToExchange is the address from which a message goes to an exchange after a delay, with its
// own routing key.
func (d *Delays) ToExchange(ctx context.Context, delay time.Duration, exchange, key string) (layouts.Address, error) {
	return d.later(ctx, delay, layouts.ToExchange(exchange), key, func() topology.Plan { return d.Native.LaterTo(exchange) })
}

// later is the address of a cascade whose destination is declared, too.
func (d *Delays) later(ctx context.Context, delay time.Duration, to, key string, end func() topology.Plan) (layouts.Address, error) {
	address, err := d.cascade(ctx, delay, to, time.Time{})
	if err != nil {
		return layouts.Address{}, err
	}
	return address, d.ensure(ctx, "way to "+to+" "+key, time.Time{}, end)
}

// cascade declares the cascade as far as a delay needs it, unless that was done since a time.
func (d *Delays) cascade(ctx context.Context, delay time.Duration, to string, since time.Time) (layouts.Address, error) {
	address, err := layouts.CascadeAddress(delay, to)
	if err != nil {
		return layouts.Address{}, fmt.Errorf("%w: %w", rabbit.ErrInvalid, err)
	}
	part := address.Exchange
	if to == layouts.ToHome {
		part += " and home"
	}
	return address, d.ensure(ctx, part, since, func() topology.Plan {
		plan := d.Native.Base()
		topologies.Add(&plan, d.Native.Cascade(delay))
		if to == layouts.ToHome {
			topologies.Add(&plan, d.Native.LaterHome())
		}
		return plan
	})
}

// backoff is the pause between attempts to declare something.
var backoff = rabbit.Backoff{Min: 20 * time.Millisecond, Max: time.Second}

// ensure declares a part of the topology, and waits for a broker until ctx ends. Its errors are those
// of publishing.
func (d *Delays) ensure(ctx context.Context, part string, since time.Time, plan func() topology.Plan) error {
	for tries := 1; ; tries++ {
		err := d.Declarer.Ensure(ctx, part, since, plan)
		refused, is := errors.AsType[*rabbit.DeclareError](err)
		switch {
		case err == nil:
			return nil
		case is && refused.Code == 404:
			return fmt.Errorf("%w: %w", rabbit.ErrUnroutable, d.Public(err))
		case is:
			return fmt.Errorf("%w: %w", rabbit.ErrRefused, d.Public(err))
		case errors.Is(err, rabbit.ErrClosed), errors.Is(err, rabbit.ErrBlocked):
			return err
		}
		if rabbit.Pause(ctx, backoff.Delay(tries)) != nil {
			return fmt.Errorf("%w: %v", rabbit.ErrDisconnected, err)
		}
	}
}

// deathSize is how much a dead-lettering adds to the headers at the most, names aside.
const deathSize = 200

// Reserve is the room that the headers of a message must leave in their frame for the given number of
// dead-letterings with a routing key, with some to spare for the queue that it goes to. A message that has grown too
// large to be delivered ends every connection that it meets.
func Reserve(deaths int, key string) int { return 1024 + (deaths+2)*(deathSize+len(key)) }
