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
	// incompleteOf4MiB is how much memory incomplete and uncommitted messages may use there: one of the largest, with its header.
	incompleteOf4MiB = largest + 128<<10 + 512
)

// small is a server with room for one large incomplete message at a time.
func small() *broker.Server { return &broker.Server{MemoryLimit: 4 << 20, MaxMessage: largest} }

// engine is the engine of a server.
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

// floodAsync writes in the background, because the broker may not read for long, and reads the answers. It returns how the broker ends the connection.
func floodAsync(p *peer, data []byte) <-chan ending {
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

// Messages that many clients begin and do not complete use little memory together, and do not delay small or large messages of others for long.
func TestHostileHoardsTogether(t *testing.T) {
	server := small()
	inBubble(t, server, func(t *testing.T) {
		n := engine(t, server)
		const peers = 20
		var ended []<-chan ending
		for range peers {
			ended = append(ended, floodAsync(enter(t, dial(t, server)), half("nowhere", largest-1000)))
		}
		synctest.Wait() // all of them have room or wait for it
		serves(t, dial(t, server))
		good := enter(t, dial(t, server))
		good.sendMethods(1, &wire.ConfirmSelect{})
		expect[*wire.ConfirmSelectOK](good)
		_ = good.conn.SetDeadline(time.Now().Add(time.Hour))
		began := time.Now()
		go func() { _, _ = good.conn.Write(message("", "nowhere", wire.Properties{}, make([]byte, largest))) }()
		expect[*wire.BasicAck](good)
		// Each of the earlier ones has its time.
		if took := time.Since(began); took > (peers+1)*2*time.Second {
			t.Errorf("a large message was confirmed after %v", took)
		}
		if used, _ := n.Memory(); used > 2*incompleteOf4MiB {
			t.Errorf("%d KiB are in use, want at most %d", used>>10, 2*incompleteOf4MiB>>10)
		}
		for i, e := range ended {
			if got := <-e; got.connection != wire.ResourceError {
				t.Errorf("peer %d: got %v, want the connection closed with %d", i, got, wire.ResourceError)
			}
		}
	})
}

// Everything is counted: the heap does not grow with the number of peers.
func TestHostileHoardsInTheHeap(t *testing.T) {
	server := start(t, small())
	begun := half("nowhere", largest-1000)
	before := heap()
	const peers = 50
	var ended []<-chan ending
	for range peers {
		ended = append(ended, floodAsync(enter(t, dial(t, server)), begun))
	}
	serves(t, dial(t, server))
	// Each has buffers for one or two frames.
	bounded(t, before, 2*incompleteOf4MiB+peers*(300<<10))
	if used, _ := engine(t, server).Memory(); used > 2*incompleteOf4MiB {
		t.Errorf("%d KiB are in use, want at most %d", used>>10, 2*incompleteOf4MiB>>10)
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
			p.sendMethods(1, &wire.ConfirmSelect{})
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

// Transactions share the memory of incomplete messages. A transaction that is larger ends its connection, and one that fits can be committed.
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
			p.sendMethods(1, &wire.TxSelect{})
			expect[*wire.TxSelectOK](p)
			return p
		}
		if got := <-floodAsync(begin(), large); got.connection != wire.ResourceError {
			t.Errorf("a transaction that is too large: got %v, want the connection closed with %d", got, wire.ResourceError)
		}
		var ended []<-chan ending
		for range 15 {
			ended = append(ended, floodAsync(begin(), frames))
		}
		// Transactions that wait for each other cannot all continue. A client whose connection was closed tries again, and succeeds.
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
		if used, _ := n.Memory(); used > 2*incompleteOf4MiB {
			t.Errorf("%d KiB are in use, want at most %d", used>>10, 2*incompleteOf4MiB>>10)
		}
		_ = server.Close()
		for _, e := range ended {
			<-e
		}
	})
}

// While memory is short, a message that has begun can be completed, so that it does not use memory for as long as others do. Nothing new begins.
func TestBegunMessageIsCompletedInAlarm(t *testing.T) {
	server := small()
	inBubble(t, server, func(t *testing.T) {
		n := engine(t, server)
		begun, filler := enter(t, dial(t, server)), enter(t, dial(t, server))
		begun.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true}, &wire.ConfirmSelect{})
		expect[*wire.QueueDeclareOK](begun)
		expect[*wire.ConfirmSelectOK](begun)
		whole := message("", "nowhere", wire.Properties{}, make([]byte, 500_000))
		begun.send(whole[:len(whole)/2])
		filled := floodAsync(filler, bytes.Repeat(message("", "q", wire.Properties{}, make([]byte, 50_000)), 200))
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

// A client that does not complete a message does not block others, on a broker so small that this message uses all its memory.
func TestHostileHoardAndAlarm(t *testing.T) {
	server := &broker.Server{MemoryLimit: 1 << 20, MaxMessage: largest}
	inBubble(t, server, func(t *testing.T) {
		n := engine(t, server)
		good := enter(t, dial(t, server))
		good.sendMethods(1, &wire.ConfirmSelect{})
		expect[*wire.ConfirmSelectOK](good)
		good.publish("", "nowhere", wire.Properties{}, nil)
		expect[*wire.BasicAck](good)
		ended := floodAsync(enter(t, dial(t, server)), half("nowhere", largest-1000))
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
