package rabbit

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// fakeBroker speaks just enough AMQP for one connection to be opened and used, and sends whatever a
// test wants it to. It is the odd or hostile peer that no real broker can be made to be.
type fakeBroker struct {
	mu    sync.Mutex
	peers []*fakePeer
	dials int
	fail  error // what Dial returns

	heartbeat byte // in seconds, on both sides. Default: 10.

	// publish is called for every message, with its number on the channel. Default: it is acked.
	publish func(p *fakePeer, channel uint16, tag uint64, header, body []byte)
	// method is called for every method; true: it has been answered.
	method func(p *fakePeer, channel uint16, class, method uint16, args []byte) bool
}

// fakePeer is the broker's end of a connection.
type fakePeer struct {
	net.Conn
	broker *fakeBroker
	write  sync.Mutex
	tags   map[uint16]uint64
}

func (b *fakeBroker) Dial(context.Context, string, string) (net.Conn, error) {
	b.mu.Lock()
	b.dials++
	err := b.fail
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	client, server := net.Pipe()
	p := &fakePeer{Conn: server, broker: b, tags: make(map[uint16]uint64)}
	b.mu.Lock()
	b.peers = append(b.peers, p)
	b.mu.Unlock()
	go p.serve()
	return client, nil
}

func (b *fakeBroker) newest() *fakePeer {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.peers[len(b.peers)-1]
}

func (b *fakeBroker) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dials
}

func (b *fakeBroker) beat() byte {
	if b.heartbeat == 0 {
		return 10
	}
	return b.heartbeat
}

func shortstr(s string) []byte { return append([]byte{byte(len(s))}, s...) }

func longstr(s string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...)
}

// frame sends a frame.
func (p *fakePeer) frame(kind byte, channel uint16, payload []byte) {
	out := binary.BigEndian.AppendUint16([]byte{kind}, channel)
	out = binary.BigEndian.AppendUint32(out, uint32(len(payload)))
	out = append(append(out, payload...), 0xce)
	p.write.Lock()
	defer p.write.Unlock()
	_, _ = p.Write(out)
}

// send sends a method.
func (p *fakePeer) send(channel, class, method uint16, args ...[]byte) {
	payload := binary.BigEndian.AppendUint16(nil, class)
	payload = binary.BigEndian.AppendUint16(payload, method)
	p.frame(1, channel, append(payload, bytes.Join(args, nil)...))
}

func (p *fakePeer) ack(channel uint16, tag uint64, multiple byte) {
	p.send(channel, 60, 80, binary.BigEndian.AppendUint64(nil, tag), []byte{multiple})
}

func (p *fakePeer) nack(channel uint16, tag uint64, multiple byte) {
	p.send(channel, 60, 120, binary.BigEndian.AppendUint64(nil, tag), []byte{multiple})
}

// content sends a header with a message id, and a body.
func (p *fakePeer) content(channel uint16, id, body string) {
	header := []byte{0, 60, 0, 0}
	header = binary.BigEndian.AppendUint64(header, uint64(len(body)))
	header = binary.BigEndian.AppendUint16(header, 1<<7)
	p.frame(2, channel, append(header, shortstr(id)...))
	if body != "" {
		p.frame(3, channel, []byte(body))
	}
}

func (p *fakePeer) giveBack(channel uint16, id string) {
	p.send(channel, 60, 50, []byte{1, 56}, shortstr("NO_ROUTE"), shortstr("x"), shortstr("k"))
	p.content(channel, id, "")
}

func (p *fakePeer) serve() {
	defer p.Close()
	if _, err := io.ReadFull(p, make([]byte, 8)); err != nil {
		return
	}
	p.send(0, 10, 10, []byte{0, 9}, []byte{0, 0, 0, 0}, longstr("PLAIN EXTERNAL"), longstr("en_US"))
	var header, body []byte
	var size uint64
	for {
		var head [7]byte
		if _, err := io.ReadFull(p, head[:]); err != nil {
			return
		}
		channel := binary.BigEndian.Uint16(head[1:])
		payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
		if _, err := io.ReadFull(p, payload); err != nil {
			return
		}
		payload = payload[:len(payload)-1]
		switch head[0] {
		case 1:
			p.answer(channel, binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]), payload[4:])
			continue
		case 2:
			header, body, size = payload, nil, binary.BigEndian.Uint64(payload[4:])
		case 3:
			body = append(body, payload...)
		default:
			continue
		}
		if uint64(len(body)) == size {
			p.tags[channel]++
			if p.broker.publish != nil {
				p.broker.publish(p, channel, p.tags[channel], header, body)
			} else {
				p.ack(channel, p.tags[channel], 0)
			}
		}
	}
}

func (p *fakePeer) answer(channel, class, method uint16, args []byte) {
	if p.broker.method != nil && p.broker.method(p, channel, class, method, args) {
		return
	}
	switch [2]uint16{class, method} {
	case [2]uint16{10, 11}:
		p.send(0, 10, 30, []byte{7, 255, 0, 2, 0, 0, 0, p.broker.beat()}) // 2047 channels, frames of 131072
	case [2]uint16{10, 40}:
		p.send(0, 10, 41, []byte{0})
	case [2]uint16{10, 50}:
		p.send(0, 10, 51)
	case [2]uint16{20, 10}:
		p.tags[channel] = 0
		p.send(channel, 20, 11, []byte{0, 0, 0, 0})
	case [2]uint16{20, 40}:
		p.send(channel, 20, 41)
	case [2]uint16{40, 10}:
		p.send(channel, 40, 11)
	case [2]uint16{60, 10}:
		p.send(channel, 60, 11)
	case [2]uint16{60, 20}:
		queue := args[3 : 3+args[2]]
		tag := args[3+len(queue):]
		p.send(channel, 60, 21, tag[:1+tag[0]])
	case [2]uint16{85, 10}:
		p.send(channel, 85, 11)
	}
}

// seen is what a link has reported.
type seen struct {
	mu     sync.Mutex
	states []State
	at     []time.Time
}

func (s *seen) tell(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states, s.at = append(s.states, state), append(s.at, time.Now())
}

func (s *seen) last() (State, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.states) == 0 {
		return Recovering, time.Time{}
	}
	return s.states[len(s.states)-1], s.at[len(s.at)-1]
}

// start makes a publisher on a link to the fake.
func start(t testing.TB, b *fakeBroker) (*Link, *Publisher, *seen) {
	t.Helper()
	states, ready := &seen{}, make(chan struct{})
	var p *Publisher
	link := NewLink("publish", Options{
		URLs: []string{"amqp://guest:guest@fake/"}, Dial: b.Dial, Name: "test", Heartbeat: time.Duration(b.beat()) * time.Second, DialTimeout: 10 * time.Second,
		Backoff: Backoff{Min: 100 * time.Millisecond, Max: time.Second},
	}, func(s State, err error) {
		<-ready
		p.SetState(s, err)
		states.tell(s)
	})
	p = NewPublisher(link, Limits{Unconfirmed: 100, UnconfirmedBytes: 1 << 20, Waiting: 10, WaitingBytes: 1 << 20})
	close(ready)
	return link, p, states
}
