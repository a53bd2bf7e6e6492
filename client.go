package rehop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/rehop/rehop/internal/consume"
	"github.com/rehop/rehop/internal/delays"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/internal/rabbit"
	"github.com/rehop/rehop/topology"
)

// Client publishes and subscribes. It is safe for concurrent use.
//
// It has one connection for publishing and one for consuming: a broker with a memory or disk alarm
// stops reading from connections that publish, and handlers must still be able to ack then. A lost
// connection is reconnected automatically, without limit.
type Client struct {
	config    Config
	hooks     hooks
	native    layouts.Native
	exchanges topology.Plan // what publishers need
	publish   *rabbit.Link
	consume   *rabbit.Link
	sender    *rabbit.Publisher // of what users publish
	mover     *rabbit.Publisher // of what fails: a channel error of one does not cost the other its confirms
	requester *rabbit.Requester
	reporter  *rabbit.Publisher // of reports, which may get lost
	declarer  *delays.Declarer
	delays    *delays.Delays
	inside    consume.Inside
	consuming consume.Shared // what subscriptions share

	mu            sync.Mutex
	closed        bool
	ended         chan struct{} // closed when Close is finished
	fault         error         // what Close returned; read it when ended is closed
	subscriptions map[*Subscription]struct{}

	background sync.WaitGroup
	quit       context.CancelFunc
}

// Open starts a client. It waits, within ctx, for one attempt to connect. A broker that refuses the
// credentials or the virtual host is an error. A broker that cannot be reached is not: the client
// keeps trying, and subscriptions and publishers wait for it.
func Open(ctx context.Context, config Config) (*Client, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("rehop: config: %w", err)
	}
	native := layouts.Native{Type: config.QueueType}
	exchanges, err := config.exchanges(native)
	if err != nil {
		return nil, fmt.Errorf("rehop: config: %w", err)
	}
	background, quit := context.WithCancel(context.Background())
	hooks := sortHooks(config.Hooks)
	notify(hooks.open, config.withoutPasswords())
	c := &Client{
		config: config, hooks: hooks, native: native, exchanges: exchanges,
		subscriptions: make(map[*Subscription]struct{}), quit: quit, ended: make(chan struct{}),
	}
	opts := config.options()
	// The links observe their states from their own goroutines; what these touch exists only when
	// ready is closed.
	ready := make(chan struct{})
	published, consumed := c.observer("publish", &c.publish), c.observer("consume", &c.consume)
	c.publish = rabbit.NewLink("publish", opts, func(s rabbit.State, err error) {
		<-ready
		if s == rabbit.Recovering {
			c.declarer.Reset()
		}
		c.sender.SetState(s, err)
		c.mover.SetState(s, err)
		c.requester.SetState(s, err)
		c.reporter.SetState(s, err)
		published(s, err)
	})
	c.consume = rabbit.NewLink("consume", opts, func(s rabbit.State, err error) {
		<-ready
		consumed(s, err)
	})
	limits := rabbit.Limits{
		Unconfirmed: config.MaxUnconfirmed, UnconfirmedBytes: config.MaxUnconfirmedBytes,
		Waiting: config.MaxWaiting, WaitingBytes: config.MaxWaitingBytes,
	}
	c.sender = rabbit.NewPublisher(c.publish, limits)
	c.mover = rabbit.NewPublisher(c.publish, limits)
	c.requester = rabbit.NewRequester(c.publish, limits)
	c.reporter = rabbit.NewPublisher(c.publish, consume.ReportLimits)
	c.declarer = delays.NewDeclarer(c.publish)
	c.delays = &delays.Delays{Declarer: c.declarer, Native: native, Public: publicError}
	host, _ := os.Hostname()
	c.consuming = consume.Shared{
		Consume: c.consume, Publish: c.publish, Mover: c.mover, Delays: c.delays, Inside: &c.inside,
		Logger: config.Logger, Host: host, Version: config.Version, Backoff: opts.Backoff,
	}
	if config.Reports {
		c.consuming.Reports = consume.NewReports(c.reporter)
	}
	close(ready)
	c.background.Go(func() { c.keepExchanges(background) })

	for _, link := range []*rabbit.Link{c.publish, c.consume} {
		err := cmp.Or(link.FirstTry(ctx), ctx.Err())
		if _, refused := errors.AsType[*rabbit.RefusedError](err); refused || ctx.Err() != nil {
			_ = c.Close(ctx)
			return nil, fmt.Errorf("rehop: open: %w", err)
		}
	}
	if err := c.declareExchanges(ctx); err != nil && rabbit.Permanent(err) {
		_ = c.Close(ctx)
		return nil, fmt.Errorf("rehop: open: %w", publicError(err))
	}
	return c, nil
}

// observer returns a function that logs changes of a connection and calls the hooks. It is called
// from one goroutine, when link is set.
func (c *Client) observer(connection string, link **rabbit.Link) func(rabbit.State, error) {
	log := c.config.Logger.With("connection", connection, "name", c.config.Name)
	troubled := false
	return func(s rabbit.State, err error) {
		change := StateChange{Connection: connection, State: publicState(s), Err: err}
		if s == rabbit.Open || s == rabbit.Blocked {
			change.Address = (*link).Address()
		}
		switch s {
		case rabbit.Recovering, rabbit.Blocked:
			log.Warn("rehop: connection "+string(change.State), "err", err)
			troubled = true
		case rabbit.Open:
			if troubled {
				log.Info("rehop: connection " + string(change.State))
			}
			troubled = false
		}
		if len(c.hooks.state) > 0 {
			defer c.inside.Leave(c.inside.Enter(nil))
			notify(c.hooks.state, change)
		}
	}
}

// State is CLOSED after Close, RECOVERING while one of the connections is missing, BLOCKED while
// the broker accepts no messages because of a memory or disk alarm, and OPEN otherwise.
func (c *Client) State() State {
	publish, _ := c.publish.State()
	consume, _ := c.consume.State()
	switch {
	case publish == rabbit.Closed || consume == rabbit.Closed:
		return StateClosed
	case publish == rabbit.Recovering || consume == rabbit.Recovering:
		return StateRecovering
	case publish == rabbit.Blocked:
		return StateBlocked
	}
	return StateOpen
}

// declareExchanges declares the exchanges that publishers need, if the broker can be reached.
func (c *Client) declareExchanges(ctx context.Context) error {
	if state, _ := c.publish.State(); state != rabbit.Open && state != rabbit.Blocked {
		return nil
	}
	return c.declarer.Ensure(ctx, "exchanges", time.Time{}, func() topology.Plan { return c.exchanges })
}

// keepExchanges declares the exchanges again at every connection: the broker may have been replaced.
func (c *Client) keepExchanges(ctx context.Context) {
	for !c.exchanges.Empty() {
		changed := c.publish.Changed()
		if err := c.declareExchanges(ctx); err != nil && ctx.Err() == nil {
			c.config.Logger.Error("rehop: cannot declare the configured exchanges", "err", publicError(err))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Close drains all subscriptions, waits up to 30 s for outstanding confirms and replies, and closes
// the connections. When ctx ends first, Close cancels the handlers and returns unfinished messages
// to the broker; so do not pass a context that has ended. Close returns when everything has ended,
// except handlers that ignore their context.
//
// Close also ends if ctx has no deadline and the broker does not answer: see [Subscription.Drain]
// for how long handlers and the broker have. The error reports published messages that were not
// confirmed, requests that were not answered, and for each queue how many failed messages went back
// to it because the broker did not accept them elsewhere.
//
// Close can be called more than once: each call waits for the end and returns the same error. In a
// handler, in a hook and in the function of [Client.PublishEach] it does nothing and returns an
// error, because it would wait for itself. The hooks of [Client.Publish] can call it outside of
// handlers.
func (c *Client) Close(ctx context.Context) error {
	if _, within := c.inside.Of(); within {
		return errors.New("rehop: close: called by a handler, a hook or a PublishEach function of this client, which Close would wait for; the client stays open. Call Close from another goroutine")
	}
	c.mu.Lock()
	if c.closed { // by another call: return when that has ended
		c.mu.Unlock()
		select {
		case <-c.ended:
			return c.fault
		case <-ctx.Done():
			return fmt.Errorf("rehop: close: %w", ctx.Err())
		}
	}
	defer close(c.ended)
	c.closed = true
	subscriptions := slices.Collect(maps.Keys(c.subscriptions))
	c.mu.Unlock()

	faults := make([]error, len(subscriptions))
	var draining sync.WaitGroup
	for i, s := range subscriptions {
		draining.Go(func() { faults[i] = s.Drain(ctx) })
	}
	draining.Wait()
	c.sender.Close()
	c.mover.Close()
	c.requester.Close()
	c.reporter.Close()
	within, cancel := context.WithTimeout(ctx, consume.ConfirmGrace)
	defer cancel()
	if n := c.sender.Quiet(within); n > 0 {
		faults = append(faults, fmt.Errorf("rehop: close: %w: unconfirmed messages: %d; the broker may have stored them", ErrUnknown, n))
	}
	if n := c.requester.Quiet(within); n > 0 {
		faults = append(faults, fmt.Errorf("rehop: close: %w: requests without a reply: %d; they may have been handled", ErrUnknown, n))
	}
	c.reporter.Quiet(within)
	c.quit()
	c.publish.Close()
	c.consume.Close()
	c.sender.Wait()
	c.mover.Wait()
	c.requester.Wait()
	c.reporter.Wait()
	c.background.Wait()
	c.fault = errors.Join(faults...)
	return c.fault
}
