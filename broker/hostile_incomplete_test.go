package broker_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/internal/wire"
)

const (
	largest = 1 << 20 // message on the servers of these tests
	// hoardsOf4MiB is what messages that are not complete or not committed may take there: one of the largest with its header.
	hoardsOf4MiB = largest + 128<<10 + 512
)

// small is a server on which there is room for one large message at a time that is not complete.
func small() *broker.Server { return &broker.Server{MemoryLimit: 4 << 20, MaxMessage: largest} }

// engine is what a server is made of.
func engine(t testing.TB, server *broker.Server) *session.Server {
	t.Helper()
	n, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// half is a message on channel 1 without its last byte.
func half(key string, size int) []byte {
	whole := message("", key, wire.Properties{}, make([]byte, size))
	return whole[:len(whole)-2] // and without the end of the frame
}

// pourIn writes in the background, for a broker that may not read for long, and reads what it answers. It returns how the broker lets go of the peer.
func pourIn(p *peer, data []byte) <-chan ending {
	ended := make(chan ending, 1)
	_ = p.conn.SetDeadline(time.Now().Add(time.Hour))
	go func() { _, _ = p.conn.Write(data) }()
	go func() {
		e := ending{hungUp: true}
		for m, err := p.method(); err == nil; m, err = p.method() {
			if closed, ok := m.(*wire.ConnectionClose); ok {
				e.connection = closed.ReplyCode
				_ = p.conn.Close()
			}
		}
		ended <- e
	}()
	return ended
}

// Messages that many clients begin and do not complete take little memory together, and keep neither small nor large messages of others away for long.
func TestHostileHoardsTogether(t *testing.T) {
	server := small()
	inBubble(t, server, func(t *testing.T) {
		n := engine(t, server)
		const peers = 20
		var ended []<-chan ending
		for range peers {
			ended = append(ended, pourIn(enter(t, dial(t, server)), half("nowhere", largest-1000)))
		}
		synctest.Wait() // all of them hold room or wait for it
		serves(t, dial(t, server))
		good := enter(t, dial(t, server))
		good.say(1, &wire.ConfirmSelect{})
		expect[*wire.ConfirmSelectOK](good)
		_ = good.conn.SetDeadline(time.Now().Add(time.Hour))
		began := time.Now()
		go func() { _, _ = good.conn.Write(message("", "nowhere", wire.Properties{}, make([]byte, largest))) }()
		expect[*wire.BasicAck](good)
		// Each of those before it has its time.
		if took := time.Since(began); took > (peers+1)*2*time.Second {
			t.Errorf("a large message was confirmed after %v", took)
		}
		if used, _ := n.Memory(); used > 2*hoardsOf4MiB {
			t.Errorf("%d KiB are in use, want at most %d", used>>10, 2*hoardsOf4MiB>>10)
		}
		for i, e := range ended {
			if got := <-e; got.connection != wire.ResourceError {
				t.Errorf("peer %d: got %v, want the connection closed with %d", i, got, wire.ResourceError)
			}
		}
	})
}

// What is counted is what is there: the heap does not grow with the number of peers.
func TestHostileHoardsInTheHeap(t *testing.T) {
	server := start(t, small())
	begun := half("nowhere", largest-1000)
	before := heap()
	const peers = 50
	var ended []<-chan ending
	for range peers {
		ended = append(ended, pourIn(enter(t, dial(t, server)), begun))
	}
	serves(t, dial(t, server))
	// For each there are buffers of a frame or two.
	bounded(t, before, 2*hoardsOf4MiB+peers*(300<<10))
	if used, _ := engine(t, server).Memory(); used > 2*hoardsOf4MiB {
		t.Errorf("%d KiB are in use, want at most %d", used>>10, 2*hoardsOf4MiB>>10)
	}
	shut(t, server)
	for _, e := range ended {
		<-e
	}
}

// Publishers of large messages take turns, and none of them is closed.
func TestLargeMessagesTakeTurns(t *testing.T) {
	server := small()
	inBubble(t, server, func(t *testing.T) {
		var publishers []*peer
		for range 30 {
			p := enter(t, dial(t, server))
			p.say(1, &wire.ConfirmSelect{})
			expect[*wire.ConfirmSelectOK](p)
			publishers = append(publishers, p)
			_ = p.conn.SetDeadline(time.Now().Add(time.Hour))
			go func() {
				for range 3 {
					_, _ = p.conn.Write(message("", "nowhere", wire.Properties{}, make([]byte, largest)))
				}
			}()
		}
		for _, p := range publishers {
			for last := uint64(0); last < 3; {
				last = expect[*wire.BasicAck](p).DeliveryTag
			}
		}
	})
}

// Transactions share the memory of messages that are not complete, and one that is larger ends its connection. One that fits can be committed.
func TestHostileTransactionsTogether(t *testing.T) {
	server := small()
	inBubble(t, server, func(t *testing.T) {
		n := engine(t, server)
		var frames []byte
		for range 8 {
			frames = append(frames, message("", "nowhere", wire.Properties{}, make([]byte, 100_000))...)
		}
		large := append(append([]byte(nil), frames...), frames...)
		begin := func() *peer {
			p := enter(t, dial(t, server))
			p.say(1, &wire.TxSelect{})
			expect[*wire.TxSelectOK](p)
			return p
		}
		if got := <-pourIn(begin(), large); got.connection != wire.ResourceError {
			t.Errorf("a transaction that is too large: got %v, want the connection closed with %d", got, wire.ResourceError)
		}
		var ended []<-chan ending
		for range 15 {
			ended = append(ended, pourIn(begin(), frames))
		}
		// Those that wait for each other cannot all go on. Who is closed tries again, and comes through.
		whole := wire.AppendMethod(bytes.Clone(frames), 1, &wire.TxCommit{})
		commit := func() bool {
			good := begin()
			_ = good.conn.SetDeadline(time.Now().Add(time.Hour))
			go func() { _, _ = good.conn.Write(whole) }()
			m, _ := good.method()
			_, committed := m.(*wire.TxCommitOK)
			return committed
		}
		for tries := 1; !commit(); tries++ {
			if tries == 20 {
				t.Fatalf("a transaction was not committed in %d tries", tries)
			}
		}
		if used, _ := n.Memory(); used > 2*hoardsOf4MiB {
			t.Errorf("%d KiB are in use, want at most %d", used>>10, 2*hoardsOf4MiB>>10)
		}
		_ = server.Close()
		for _, e := range ended {
			<-e
		}
	})
}

// While memory is short, a message that has begun can be completed, so that it does not take memory for as long as others do. Nothing new begins.
func TestBegunMessageIsCompletedInAlarm(t *testing.T) {
	server := small()
	inBubble(t, server, func(t *testing.T) {
		n := engine(t, server)
		begun, filler := enter(t, dial(t, server)), enter(t, dial(t, server))
		begun.say(1, &wire.QueueDeclare{Queue: "q", Durable: true}, &wire.ConfirmSelect{})
		expect[*wire.QueueDeclareOK](begun)
		expect[*wire.ConfirmSelectOK](begun)
		whole := message("", "nowhere", wire.Properties{}, make([]byte, 500_000))
		begun.send(whole[:len(whole)/2])
		filled := pourIn(filler, bytes.Repeat(message("", "q", wire.Properties{}, make([]byte, 50_000)), 200))
		synctest.Wait()
		if len(n.Alarms()) == 0 {
			t.Fatal("there is no alarm: this test shows nothing")
		}
		begun.send(whole[len(whole)/2:])
		expect[*wire.BasicAck](begun)
		begun.send(whole)
		synctest.Wait()
		if got := len(n.Alarms()); got != 1 {
			t.Fatalf("got %d alarms, want one still", got)
		}
		if got := n.Vhost("/").Queue("q").Status().Ready; got > 60 {
			t.Errorf("%d messages are in the queue, want the publisher blocked before", got)
		}
		_ = filler.conn.Close()
		<-filled
	})
}

// One who does not complete a message does not keep others blocked, on a broker so small that this message alone takes all its memory.
func TestHostileHoardAndAlarm(t *testing.T) {
	server := &broker.Server{MemoryLimit: 1 << 20, MaxMessage: largest}
	inBubble(t, server, func(t *testing.T) {
		n := engine(t, server)
		good := enter(t, dial(t, server))
		good.say(1, &wire.ConfirmSelect{})
		expect[*wire.ConfirmSelectOK](good)
		good.publish("", "nowhere", wire.Properties{}, nil)
		expect[*wire.BasicAck](good)
		ended := pourIn(enter(t, dial(t, server)), half("nowhere", largest-1000))
		synctest.Wait()
		if len(n.Alarms()) == 0 {
			t.Fatal("there is no alarm: this test shows nothing")
		}
		_ = good.conn.SetDeadline(time.Now().Add(time.Hour))
		go func() { _, _ = good.conn.Write(message("", "nowhere", wire.Properties{}, nil)) }()
		if got := <-ended; got.connection != wire.ResourceError {
			t.Errorf("got %v, want the connection closed with %d", got, wire.ResourceError)
		}
		expect[*wire.BasicAck](good)
		if got := n.Alarms(); len(got) > 0 {
			t.Errorf("got the alarms %q, want none", got)
		}
	})
}
