package broker_test

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/wire"
)

// inBubble runs a test in virtual time, in which waiting costs nothing.
func inBubble(t *testing.T, server *broker.Server, test func(t *testing.T)) {
	t.Helper()
	server.Logger = quiet()
	synctest.Test(t, func(t *testing.T) {
		defer shut(t, server)
		test(t)
	})
}

// flood writes the same bytes until the broker reads no more, and returns how often it has read them.
func flood(t testing.TB, conn net.Conn, data []byte, most int) int {
	t.Helper()
	for taken := range most {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write(data); errors.Is(err, os.ErrDeadlineExceeded) {
			return taken
		} else if err != nil {
			t.Fatalf("after %d times: got %v, want the broker to take no more", taken, err)
		}
	}
	return most
}

// A client that does not log in is disconnected.
func TestHostileSilence(t *testing.T) {
	for name, said := range map[string][]byte{
		"nothing": nil, "half a header": []byte("AMQP"), "a header": []byte(wire.ProtocolHeader), "half a frame": []byte(wire.ProtocolHeader + "\x01\x00\x00\x00\x00"),
		"all but open": login("guest", "guest")[:len(login("guest", "guest"))-5],
	} {
		t.Run(name, func(t *testing.T) {
			server := &broker.Server{}
			inBubble(t, server, func(t *testing.T) {
				began := time.Now()
				p := newPeer(t, dial(t, server))
				p.send(said)
				if got := p.end(); !got.hungUp || time.Since(began) != 10*time.Second {
					t.Errorf("got %v after %v, want the broker to hang up after 10 s", got, time.Since(began))
				}
			})
		})
	}
}

func TestHostileDrip(t *testing.T) {
	server := &broker.Server{}
	inBubble(t, server, func(t *testing.T) {
		began := time.Now()
		conn := dial(t, server)
		for _, b := range login("guest", "guest") {
			if _, err := conn.Write([]byte{b}); err != nil {
				break
			}
			time.Sleep(time.Second) // virtual time
		}
		if lasted := time.Since(began); lasted > 12*time.Second {
			t.Errorf("one byte a second was listened to for %v, want 10 s", lasted)
		}
	})
}

// The broker disconnects a peer that sends broken frames and does not close.
func TestHostileStayer(t *testing.T) {
	server := &broker.Server{}
	inBubble(t, server, func(t *testing.T) {
		p := enter(t, dial(t, server))
		p.send(wire.AppendFrame(nil, 255, 1, nil))
		expect[*wire.ConnectionClose](p)
		began := time.Now()
		for stays := true; stays; {
			_ = p.conn.SetWriteDeadline(time.Now().Add(time.Minute))
			_, err := p.conn.Write(make([]byte, 1000))
			stays = err == nil
			time.Sleep(100 * time.Millisecond)
		}
		if lasted := time.Since(began); lasted > 6*time.Second {
			t.Errorf("the broker has listened for %v, want it to hang up after 5 s", lasted)
		}
	})
}

// The broker stops reading from a client that publishes and reads neither returns nor confirms.
func TestHostilePublisher(t *testing.T) {
	server := &broker.Server{}
	inBubble(t, server, func(t *testing.T) {
		p := enter(t, dial(t, server))
		p.sendMethods(1, &wire.ConfirmSelect{})
		lost := wire.AppendMethod(nil, 1, &wire.BasicPublish{RoutingKey: "nowhere", Mandatory: true})
		lost = wire.AppendContent(lost, 1, wire.ClassBasic, wire.Properties{}.Append(nil), make([]byte, 1000), 4096)
		const most = 100_000
		if taken := flood(t, p.conn, lost, most); taken > most/10 {
			t.Errorf("the broker took %d messages from a client that reads nothing, want at most %d", taken, most/10)
		}
		serves(t, dial(t, server))
	})
}

// A few bytes can request many; no more requests are answered before the answers are read.
func TestHostileGetter(t *testing.T) {
	server := &broker.Server{}
	inBubble(t, server, func(t *testing.T) {
		p := enter(t, dial(t, server))
		p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true})
		expect[*wire.QueueDeclareOK](p)
		p.publish("", "q", wire.Properties{}, make([]byte, 1<<20))
		before := heap()
		again := wire.AppendMethod(nil, 1, &wire.BasicGet{Queue: "q"})
		again = wire.AppendMethod(again, 1, &wire.BasicNack{Multiple: true, Requeue: true})
		flood(t, p.conn, again, 1_000_000)
		bounded(t, before, 16<<20)
		serves(t, dial(t, server))
	})
}

// A consumer that does not read blocks no other consumer, and holds few messages of the queue.
func TestHostileConsumer(t *testing.T) {
	server := &broker.Server{}
	inBubble(t, server, func(t *testing.T) {
		p := enter(t, dial(t, server))
		p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true}, &wire.BasicConsume{Queue: "q", NoAck: true})
		expect[*wire.QueueDeclareOK](p)
		expect[*wire.BasicConsumeOK](p)
		good := enter(t, dial(t, server))
		const messages, size = 5000, 1000
		for range messages {
			good.publish("", "q", wire.Properties{}, make([]byte, size))
		}
		good.sendMethods(1, &wire.QueueDeclare{Queue: "q", Passive: true})
		if left := expect[*wire.QueueDeclareOK](good).MessageCount; left < messages-1000 {
			t.Errorf("%d of %d messages wait in the queue, want nearly all", left, messages)
		}
		serves(t, dial(t, server))
	})
}

// Messages that are not committed or not complete are limited, too.
func TestHostileHoarder(t *testing.T) {
	// Messages without a body are the cheapest to send.
	empty := bytes.Repeat(message("", "nowhere", wire.Properties{}, nil), 1000)
	begun := func(channel uint16) []byte {
		frames := wire.AppendMethod(nil, channel, &wire.BasicPublish{RoutingKey: "nowhere"})
		frames = wire.AppendFrame(frames, wire.FrameHeader, channel, []byte{0, 60, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0})
		return wire.AppendFrame(frames, wire.FrameBody, channel, make([]byte, 100_000))
	}
	for name, hoard := range map[string]func(p *peer, i int){
		"a transaction of empty messages": func(p *peer, i int) {
			if i == 0 {
				p.sendMethods(1, &wire.TxSelect{})
			}
			p.send(empty)
		},
		"transactions on many channels": func(p *peer, i int) {
			channel := uint16(i + 2)
			frames := wire.AppendMethod(wire.AppendMethod(nil, channel, &wire.ChannelOpen{}), channel, &wire.TxSelect{})
			frames = wire.AppendMethod(frames, channel, &wire.BasicPublish{RoutingKey: "nowhere"})
			p.send(wire.AppendContent(frames, channel, wire.ClassBasic, wire.Properties{}.Append(nil), make([]byte, 500_000), 100_000))
		},
		"begun messages on many channels": func(p *peer, i int) {
			channel := uint16(i + 2)
			p.send(append(wire.AppendMethod(nil, channel, &wire.ChannelOpen{}), begun(channel)...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := start(t, &broker.Server{MaxMessage: 16 << 20})
			before := heap()
			p := enter(t, dial(t, server))
			read := make(chan struct{})
			go func() { // until the broker or the test hangs up
				defer close(read)
				for _, err := p.method(); err == nil; _, err = p.method() {
				}
			}()
			for i := range 300 {
				hoard(p, i)
			}
			bounded(t, before, perPeer)
			_ = p.conn.Close()
			<-read
			serves(t, dial(t, server))
		})
	}
}
