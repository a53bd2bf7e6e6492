package rabbit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
)

// holdTimeout is the broker's consumer timeout in these tests.
const holdTimeout = time.Minute

// The methods that tests hold back.
var (
	channelClose   = [2]uint16{20, 40}
	channelCloseOk = [2]uint16{20, 41}
	basicCancel    = [2]uint16{60, 30}
	none           = [2]uint16{}
)

// heldConn is a connection on which nothing leaves from a method of the client on, until it may.
type heldConn struct {
	net.Conn
	method  [2]uint16
	channel uint16 // 0: any
	may     chan struct{}
}

func (c *heldConn) Write(b []byte) (int, error) {
	if hasMethod(b, c.method, c.channel) {
		<-c.may
	}
	return c.Conn.Write(b)
}

// hasMethod reports whether frames have a method of a channel, or of any, among them.
func hasMethod(frames []byte, method [2]uint16, channel uint16) bool {
	const header, end = 7, 1
	for len(frames) > header+4 && frames[0] != 'A' { // with which a connection begins
		class := binary.BigEndian.Uint16(frames[header:])
		of := binary.BigEndian.Uint16(frames[1:])
		if frames[0] == 1 && (channel == 0 || channel == of) && method == [2]uint16{class, binary.BigEndian.Uint16(frames[header+2:])} {
			return true
		}
		frames = frames[header+binary.BigEndian.Uint32(frames[3:])+end:]
	}
	return false
}

// sweepHeld opens a sweep of the queue of heldLine.
func sweepHeld(t *testing.T, release broker.Compat, method [2]uint16, gathers bool, largest int) (*Sweep, *heldConn) {
	t.Helper()
	line, held := heldLine(t, release, method, gathers)
	s, _, err := line.OpenSweep(t.Context(), "q", SweepOptions{Ahead: largest, Room: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return s, held
}

// heldLine is a connection that holds back a method, to a broker with a quorum queue of three messages. gathers: writing does not wait for that, as
// on the connections of a link.
func heldLine(t *testing.T, release broker.Compat, method [2]uint16, gathers bool) (*Conn, *heldConn) {
	t.Helper()
	server := &broker.Server{Compat: release, ConsumerTimeout: holdTimeout, Heartbeat: -1, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	held := &heldConn{method: method, may: make(chan struct{})}
	conn, err := amqp.DialConfig("amqp://guest:guest@embedded/", amqp.Config{Heartbeat: time.Hour, Dial: func(network, addr string) (net.Conn, error) {
		var err error
		if held.Conn, err = server.Dial(t.Context(), network, addr); err != nil || !gathers {
			return held, err
		}
		return gather(held), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		confirm, err := ch.PublishWithDeferredConfirm("", "q", true, false, amqp.Publishing{MessageId: fmt.Sprintf("m%d", i)})
		if err != nil || !confirm.Wait() {
			t.Fatalf("publish: %v", err)
		}
	}
	return &Conn{link: &Link{}, amqp: conn}, held
}

// one takes a message that was not taken before.
func one(t *testing.T, s *Sweep) Batch {
	t.Helper()
	b, err := s.Take(t.Context(), 1, 1<<20, 3)
	for err == nil && len(b.Again) > 0 && len(b.Messages) == 0 {
		b, err = s.Take(t.Context(), 1, 1<<20, 3)
	}
	if err != nil || len(b.Messages) != 1 {
		t.Fatalf("got %d messages and %v, want one", len(b.Messages), err)
	}
	return b
}

// wantRest gives everything back and takes what was not taken before, which must be these.
func wantRest(t *testing.T, s *Sweep, ids ...string) {
	t.Helper()
	if err := s.Rewind(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for range ids {
		got = append(got, one(t, s).Messages[0].MessageId)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("then: got %v, want %v", got, ids)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// taken is what Take returned.
type taken struct {
	batch Batch
	err   error
}

func (s *Sweep) takeLater(ctx context.Context) <-chan taken {
	result := make(chan taken, 1)
	go func() {
		b, err := s.Take(ctx, 1, 1<<20, 3)
		result <- taken{b, err}
	}()
	return result
}

// eachRelease runs a test on the embedded broker in virtual time, by the rules of each release that takes messages back in its own way.
func eachRelease(t *testing.T, test func(t *testing.T, release broker.Compat)) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		t.Run(release.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, release) })
		})
	}
}

// A channel is closed for its users before they can learn why. A sweep that notices it in between must not take it for a lost connection.
func TestTakenBackBeforeTheReason(t *testing.T) {
	eachRelease(t, func(t *testing.T, release broker.Compat) {
		s, conn := sweepHeld(t, release, channelCloseOk, false, 1)
		first := one(t, s) // which fills a window
		time.Sleep(2 * time.Second)
		one(t, s)
		time.Sleep(holdTimeout - time.Second)
		if !first.window.ch.IsClosed() || len(first.window.closing) > 0 {
			t.Fatal("the channel is not yet closed, or its reason has come")
		}
		next := s.takeLater(t.Context())
		synctest.Wait()
		close(conn.may)
		if got := <-next; !errors.Is(got.err, ErrHeldTooLong) {
			t.Errorf("got %v, want %v", got.err, ErrHeldTooLong)
		}
		wantRest(t, s, "m2")
	})
}

// Each batch of a window whose messages the broker has taken back gets the same answer.
func TestTakenBackSeveralBatches(t *testing.T) {
	for name, largest := range map[string]int{"consumer has ended": 2, "consumer has not ended": 3} {
		t.Run(name, func(t *testing.T) {
			eachRelease(t, func(t *testing.T, release broker.Compat) {
				s, _ := sweepHeld(t, release, none, true, largest)
				batches := []Batch{one(t, s), one(t, s)}
				time.Sleep(holdTimeout + time.Second)
				for i, b := range batches {
					if err := s.Remove(t.Context(), b, []uint64{b.Messages[0].DeliveryTag}); !errors.Is(err, ErrHeldTooLong) {
						t.Errorf("batch %d: got %v, want %v", i, err, ErrHeldTooLong)
					}
				}
				wantRest(t, s, "m0", "m1", "m2") // what was to be removed comes again
			})
		})
	}
}

// A message is not passed over because its window ended while Take had it.
func TestTakenBackDuringTake(t *testing.T) {
	eachRelease(t, func(t *testing.T, release broker.Compat) {
		s, conn := sweepHeld(t, release, basicCancel, true, 1)
		first := s.takeLater(t.Context())
		time.Sleep(holdTimeout + time.Second)
		close(conn.may)
		rest := []string{"m0", "m1", "m2"}
		if got := <-first; got.err == nil {
			rest = rest[len(got.batch.Messages):]
		} else if !errors.Is(got.err, ErrHeldTooLong) {
			t.Errorf("got %v, want %v", got.err, ErrHeldTooLong)
		}
		wantRest(t, s, rest...)
	})
}

// A broker that ends the consumer leaves its channel open. Nothing is sent on a channel that is being closed, because that ends the connection.
func TestTakenBackFromOpenChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn := sweepHeld(t, broker.RabbitMQ43, channelClose, true, 3)
		first := one(t, s)
		time.Sleep(holdTimeout + time.Second)
		err := s.Remove(t.Context(), first, []uint64{first.Messages[0].DeliveryTag})
		close(conn.may)
		if !errors.Is(err, ErrHeldTooLong) {
			t.Errorf("got %v, want %v", err, ErrHeldTooLong)
		}
		wantRest(t, s, "m0", "m1", "m2")
	})
}

// So it is with the channel of a session whose deliveries the broker has taken back: the handlers that finish then have nothing to ack.
func TestTakenBackFromSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, conn := heldLine(t, broker.RabbitMQ43, channelClose, true)
		conn.channel = 2 // the session's: it opens another one to see whether the queue is there
		lost := line.amqp.NotifyClose(make(chan *amqp.Error, 1))
		s, err := line.openSession(t.Context(), ConsumeOptions{Queue: "q", Timeout: 2 * holdTimeout}, 3)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := s.Next()
		time.Sleep(2*holdTimeout + time.Second)
		if first.Ack() {
			t.Error("the ack of a message that the broker has taken back was accepted")
		}
		time.Sleep(time.Second) // longer than acks wait for others
		close(conn.may)
		<-s.Ended()
		synctest.Wait()
		select {
		case err := <-lost:
			t.Errorf("the connection was lost: %v", err)
		default:
		}
	})
}
