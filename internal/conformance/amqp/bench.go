package amqp

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/internal/conformance/await"
)

// limit is how long a case waits for what must happen: far longer than anything takes.
const limit = 2 * time.Minute

// Bench is what a case works with: a broker, and a virtual host of its own.
type Bench struct {
	Vhost
	Target Target
	t      testing.TB
	used   atomic.Bool // by a connection to the broker
}

// NewBench makes a virtual host for one test.
func NewBench(t testing.TB, target Target) *Bench {
	t.Helper()
	return &Bench{Vhost: target.Vhost(t), Target: target, t: t}
}

// wantUsed checks that the case has done something: one that leaves at once would count as passed.
func (b *Bench) wantUsed() {
	b.t.Helper()
	if !b.used.Load() {
		b.t.Error("the case did not connect to the broker: if it does not hold for this release, its part of the section has to exclude it")
	}
}

// Connect opens a connection as the virtual host's user.
func (b *Bench) Connect() *Conn {
	b.t.Helper()
	return b.ConnectAs(b.User, b.Password)
}

// ConnectAs opens a connection as another user.
func (b *Bench) ConnectAs(user, password string) *Conn {
	b.t.Helper()
	for {
		began := time.Now()
		conn, err := b.TryConnect(amqp091.Config{
			SASL:  []amqp091.Authentication{&amqp091.PlainAuth{Username: user, Password: password}},
			Vhost: b.Name,
		})
		// Brokers end a handshake after ten seconds, and a machine with very much to do can take that long.
		if took := time.Since(began); errors.Is(err, amqp091.ErrClosed) && took > handshakeLimit {
			b.t.Logf("the broker has ended a handshake after %v; connecting again", took)
			continue
		}
		b.Must(err)
		return conn
	}
}

// handshakeLimit is after how long a broker may end a handshake.
const handshakeLimit = 9 * time.Second

// TryConnect opens a connection that the broker may refuse.
func (b *Bench) TryConnect(config amqp091.Config) (*Conn, error) {
	b.t.Helper()
	conn, err := amqp091.Open(b.dial(), config)
	if err != nil {
		return nil, err
	}
	// A case that ends a connection itself closes it once more here.
	b.t.Cleanup(func() { _ = conn.CloseDeadline(time.Now().Add(limit)) })
	return &Conn{Connection: conn, b: b, closed: conn.NotifyClose(make(chan *amqp091.Error, 1))}, nil
}

// dial opens a transport that is cut when a case takes too long.
func (b *Bench) dial() net.Conn {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	b.used.Store(true)
	conn, err := b.Target.Dial(ctx)
	if err != nil {
		b.t.Fatalf("dial the broker: %v", err)
	}
	// amqp091-go waits for an answer forever, and sets its own deadlines.
	timer := time.AfterFunc(2*limit, func() { _ = conn.Close() })
	b.t.Cleanup(func() {
		timer.Stop()
		_ = conn.Close()
	})
	return conn
}

// Channel opens a channel on a connection of its own.
func (b *Bench) Channel() *Channel {
	b.t.Helper()
	return b.Connect().Channel()
}

// ChannelAs opens a channel on a connection of a new user with these permissions.
func (b *Bench) ChannelAs(configure, write, read string) (ch *Channel, user string) {
	b.t.Helper()
	user, password := b.Target.AddUser(b.t, b.Name, configure, write, read)
	return b.ConnectAs(user, password).Channel(), user
}

// Must ends the test on an error.
func (b *Bench) Must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("got error %v, want none", err)
	}
}

// Refused checks that a call failed with an exception of the broker's. In its text {vhost} and {user}
// stand for the case's own, and … for anything.
func (b *Bench) Refused(err error, code int, text string) {
	b.t.Helper()
	text = b.expand(text)
	var got *amqp091.Error
	switch {
	case err == nil:
		b.t.Fatalf("got no error, want %d %q", code, text)
	case !errors.As(err, &got):
		b.t.Fatalf("got error %v, want %d %q", err, code, text)
	case got.Code != code || !matches(got.Reason, text):
		b.t.Fatalf("got exception %d %q\nwant          %d %q", got.Code, got.Reason, code, text)
	case !got.Server:
		b.t.Fatalf("got exception %v of the client's own, want one of the broker's", got)
	}
}

// expand puts the case's own names into a text.
func (b *Bench) expand(text string) string {
	return strings.NewReplacer("{vhost}", b.Name, "{user}", b.User).Replace(text)
}

// matches reports whether a text is as wanted, where … stands for anything.
func matches(got, want string) bool {
	before, after, open := strings.Cut(want, "…")
	if !open {
		return got == want
	}
	return len(got) >= len(before)+len(after) && strings.HasPrefix(got, before) && strings.HasSuffix(got, after)
}

// QueueGone waits until a queue does not exist any more, which no event announces.
func (b *Bench) QueueGone(name string) {
	b.t.Helper()
	conn := b.Connect()
	b.Eventually("queue "+name+" is gone", func() bool { return !conn.hasQueue(name) })
}

// QueueExists checks that a queue exists.
func (b *Bench) QueueExists(name string) {
	b.t.Helper()
	if !b.Connect().hasQueue(name) {
		b.t.Fatalf("queue %q is gone, want it to exist", name)
	}
}

// ExchangeExists checks whether an exchange exists.
func (b *Bench) ExchangeExists(name string, want bool) {
	b.t.Helper()
	err := b.Channel().ExchangeDeclarePassive(name, "direct", false, false, false, false, nil)
	if got := !notFound(err); got != want {
		b.t.Fatalf("exchange %q exists: got %v, want %v (%v)", name, got, want, err)
	}
}

func notFound(err error) bool {
	var exception *amqp091.Error
	return errors.As(err, &exception) && exception.Code == amqp091.NotFound
}

// Acked waits for the broker's answer to a published message.
func (b *Bench) Acked(confirm *amqp091.DeferredConfirmation) bool {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	acked, err := confirm.WaitContext(ctx)
	if err != nil {
		b.t.Fatalf("wait for a confirm: %v", err)
	}
	return acked
}

// Eventually waits for a condition that no event announces.
func (b *Bench) Eventually(what string, condition func() bool) {
	b.t.Helper()
	await.True(b.t, limit, 20*time.Millisecond, what, condition)
}

// Receive waits for an event.
func Receive[T any](b *Bench, from <-chan T, what string) T {
	b.t.Helper()
	v, ok := await.Next(b.t, from, limit, what)
	if !ok {
		b.t.Fatalf("%s: got the end of the stream instead", what)
	}
	return v
}

// Equal checks a value.
func Equal[T comparable](b *Bench, what string, got, want T) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
