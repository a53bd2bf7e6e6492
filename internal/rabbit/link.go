package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// refusedPause is the shortest pause after a broker has refused a login: operators correct credentials and
// permissions, and brokers count failed logins.
const refusedPause = 5 * time.Second

// steady is how long a connection must last for the next one to be tried soon.
const steady = 5 * time.Second

// closeGrace is how long a broker may take to answer that a connection may close.
const closeGrace = 2 * time.Second

// Link is a connection that reconnects without limit, until it is closed.
type Link struct {
	role    string
	opts    Options
	observe func(State, error)

	mu         sync.Mutex
	conn       *amqp.Connection // nil while there is none
	address    string           // of the broker of the current or the last connection
	state      State
	err        error         // why there is none, or why it is blocked
	tries      int           // failed attempts since the last success
	unobserved bool          // nothing has been observed yet
	observed   []string      // the reasons that were observed since the connection was lost
	changed    chan struct{} // closed at the next change

	cancel context.CancelFunc
	done   chan struct{}
	calls  group // to the broker, whose callers may have returned
}

// maxReasons is how many reasons of one outage are observed: reasons that alternate, or differ each time,
// are not worth a report.
const maxReasons = 8

// NewLink starts connecting. observe is called at every change of state, and when a connection that is
// missing has a new reason, in order, from one goroutine.
func NewLink(role string, opts Options, observe func(State, error)) *Link {
	ctx, cancel := context.WithCancel(context.Background())
	l := &Link{
		role: role, opts: opts, observe: observe, cancel: cancel,
		changed: make(chan struct{}), done: make(chan struct{}),
		err: errors.New("the first attempt to connect has not ended yet"), unobserved: true,
	}
	go l.run(ctx)
	return l
}

// State is the link's state, and the reason when it is not Open.
func (l *Link) State() (State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state, l.err
}

// Address is the host and port of the broker of the current or the last connection.
func (l *Link) Address() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.address
}

// Changed returns a channel that is closed at the next change of the link.
func (l *Link) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Connection waits for a connection.
func (l *Link) Connection(ctx context.Context) (*amqp.Connection, error) {
	for {
		l.mu.Lock()
		conn, state, err, changed := l.conn, l.state, l.err, l.changed
		l.mu.Unlock()
		switch {
		case state == Closed:
			return nil, ErrClosed
		case conn != nil && !conn.IsClosed():
			return conn, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err == nil {
				err = ctx.Err()
			}
			return nil, fmt.Errorf("%w: %w", ErrDisconnected, err)
		}
	}
}

// FirstTry waits until the link has connected or has failed once, and returns that failure.
func (l *Link) FirstTry(ctx context.Context) error {
	for {
		l.mu.Lock()
		state, err, tries, changed := l.state, l.err, l.tries, l.changed
		l.mu.Unlock()
		if state != Recovering {
			return nil
		}
		if tries > 0 {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (l *Link) set(conn *amqp.Connection, state State, err error, tries int) {
	l.mu.Lock()
	same := l.state == state && l.conn == conn && !l.unobserved
	l.unobserved = false
	if state != Recovering {
		l.observed = nil
	} else if why := reason(err); !slices.Contains(l.observed, why) && len(l.observed) < maxReasons {
		l.observed, same = append(l.observed, why), false
	}
	l.conn, l.state, l.err, l.tries = conn, state, err, tries
	close(l.changed)
	l.changed = make(chan struct{})
	l.mu.Unlock()
	if !same {
		l.observe(state, err)
	}
}

// reason is the text of an error without the local port, which differs at each attempt.
func reason(err error) string {
	if err == nil {
		return ""
	}
	words := strings.Fields(err.Error())
	for i, word := range words {
		if _, to, ok := strings.Cut(word, "->"); ok {
			words[i] = to
		}
	}
	return strings.Join(words, " ")
}

func (l *Link) run(ctx context.Context) {
	defer close(l.done)
	tries, flaps := 0, 0
	for ctx.Err() == nil {
		conn, transport, err := l.dialAny(ctx)
		if err != nil {
			tries++
			l.set(nil, Recovering, err, tries)
			wait := l.opts.Backoff.Delay(tries)
			if _, refused := errors.AsType[*RefusedError](err); refused {
				wait = max(wait, refusedPause)
			}
			_ = Pause(ctx, wait)
			continue
		}
		tries = 0
		l.calls.start(func() { transport.watch(conn.Config.Heartbeat) })
		began := time.Now()
		err = l.hold(ctx, conn)
		<-transport.done
		if err != nil {
			l.set(nil, Recovering, err, 0)
			// A broker that accepts and drops connections is not flooded with them.
			if flaps++; time.Since(began) > steady {
				flaps = 1
			}
			_ = Pause(ctx, l.opts.Backoff.Delay(flaps))
		}
	}
	l.set(nil, Closed, ErrClosed, 0)
}

// dialAny tries every URL once.
func (l *Link) dialAny(ctx context.Context) (*amqp.Connection, *gatherConn, error) {
	var faults []error
	for _, u := range l.opts.URLs {
		conn, transport, err := l.opts.dial(ctx, u, l.role)
		if err == nil {
			ep, _ := parseURL(u) // which dial could
			l.mu.Lock()
			l.address = ep.addr
			l.mu.Unlock()
			return conn, transport, nil
		}
		faults = append(faults, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, nil, errors.Join(faults...)
}

// hold keeps a connection until it ends, and returns why; nil: Close was called.
func (l *Link) hold(ctx context.Context, conn *amqp.Connection) error {
	// amqp091-go waits for a full listener, so these have room for more than can come.
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 64))
	l.set(conn, Open, nil, 0)
	for {
		select {
		case b, ok := <-blocked:
			switch {
			case !ok:
				blocked = nil
			case b.Active:
				l.set(conn, Blocked, fmt.Errorf("%w: %s", ErrBlocked, b.Reason), 0)
			default:
				l.set(conn, Open, nil, 0)
			}
		case e := <-closed:
			if e == nil {
				return errors.New("connection closed")
			}
			return fmt.Errorf("connection lost: %s (%d)", e.Reason, e.Code)
		case <-ctx.Done():
			_ = conn.CloseDeadline(time.Now().Add(closeGrace))
			return nil
		}
	}
}

// Close closes the connection and waits until everything of it has ended.
func (l *Link) Close() {
	l.cancel()
	<-l.done
	l.calls.wait()
}

// call makes a call that waits for the broker and knows no context. When ctx ends first, the call
// continues in the background, at most until the connection ends, and undo reverts its effect.
func (l *Link) call(ctx context.Context, do func() error, undo func()) error {
	if ctx.Done() == nil {
		return do()
	}
	outcome := make(chan error, 1)
	if !l.calls.start(func() { outcome <- do() }) {
		return ErrClosed
	}
	select {
	case err := <-outcome:
		return err
	case <-ctx.Done():
	}
	l.calls.start(func() {
		if <-outcome == nil {
			undo()
		}
	})
	if state, err := l.State(); state == Blocked {
		return fmt.Errorf("%w: %w", err, ctx.Err())
	}
	return fmt.Errorf("%w: the broker has not answered: %w", ErrDisconnected, ctx.Err())
}

// Channel opens a channel on the current connection. It waits for one if there is none.
func (l *Link) Channel(ctx context.Context) (*amqp.Channel, error) {
	s, err := l.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return s.channel(ctx)
}

// on is Conn.on with the current connection.
func (l *Link) on(ctx context.Context, do func(*amqp.Channel) error) (*amqp.Channel, error) {
	s, err := l.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return s.on(ctx, do)
}

// briefly is Conn.briefly with the current connection.
func (l *Link) briefly(ctx context.Context, do func(*amqp.Channel) error) error {
	s, err := l.Conn(ctx)
	if err != nil {
		return err
	}
	return s.briefly(ctx, do)
}
