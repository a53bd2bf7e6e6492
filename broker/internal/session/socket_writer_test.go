package session

import (
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/internal/wire"
)

// testWriter is a socketWriter that runs, and the client that can read from it.
type testWriter struct {
	*socketWriter
	client  net.Conn
	resumed []*consumer
	failed  bool
}

func newTestWriter(t *testing.T) *testWriter {
	server, client := net.Pipe()
	m := &testWriter{socketWriter: newSocketWriter(server), client: client}
	go m.write(func(c *consumer) { m.resumed = append(m.resumed, c) }, func() { m.failed = true })
	t.Cleanup(func() {
		m.end()
		_ = client.Close()
		<-m.ended
	})
	return m
}

// stuff appends n bytes.
func (m *testWriter) stuff(n int) { m.unlock(append(m.lock(), make([]byte, n)...)) }

func (m *testWriter) read(t *testing.T, n int) {
	t.Helper()
	if _, err := io.ReadFull(m.client, make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

func TestSocketWriterOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestWriter(t)
		go func() {
			for tag := range uint64(100) {
				m.send(uint16(tag), &wire.BasicAck{DeliveryTag: tag})
			}
			m.end()
			m.send(1, &wire.BasicAck{DeliveryTag: 1000}) // comes too late
		}()
		r := wire.NewReader(m.client, 4096)
		for tag := range uint64(100) {
			f, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			if args, err := wire.ParseAck(f.Payload); err != nil || args.Tag != tag || f.Channel != uint16(tag) {
				t.Fatalf("frame %d: got tag %d on channel %d, %v", tag, args.Tag, f.Channel, err)
			}
		}
		<-m.ended
		if m.sent() == 0 || m.failed {
			t.Errorf("at the end: %d bytes sent, failed %t, want some and no failure", m.sent(), m.failed)
		}
		_ = m.conn.Close()
		if f, err := r.Next(); err == nil {
			t.Errorf("after the end: got a frame on channel %d", f.Channel)
		}
	})
}

// TestSocketWriterCollects: what arrives while the client is slow is written at once.
func TestSocketWriterCollects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestWriter(t)
		m.stuff(1)
		synctest.Wait() // the writer has it
		for range 10 {
			m.stuff(100)
		}
		m.read(t, 1)
		buf := make([]byte, 4096)
		if n, err := m.client.Read(buf); n != 1000 || err != nil {
			t.Errorf("read: got %d bytes, %v, want 1000", n, err)
		}
		if synctest.Wait(); m.sent() != 1001 {
			t.Errorf("sent: got %d, want 1001", m.sent())
		}
	})
}

// TestSocketWriterFull: nothing is delivered to a client that does not read, and its consumers are resumed when it does.
func TestSocketWriterFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestWriter(t)
		one, two := &consumer{}, &consumer{}
		m.stuff(1)
		synctest.Wait()
		buf, ok := m.lockFor(one)
		if !ok {
			t.Fatal("an empty outbox has no room")
		}
		m.unlock(append(buf, make([]byte, stopDeliveringAt+1)...))
		for _, c := range []*consumer{one, two} {
			if _, ok := m.lockFor(c); ok {
				t.Fatal("a full outbox has room")
			}
		}
		m.read(t, 1)
		if len(m.resumed) != 0 {
			t.Error("consumers were called before the client has read")
		}
		m.read(t, stopDeliveringAt+1)
		if want := []*consumer{one, two}; !slices.Equal(m.resumed, want) {
			t.Errorf("resumed: got %d consumers, want both in order", len(m.resumed))
		}
		if buf, ok := m.lockFor(one); !ok {
			t.Error("an outbox that was read has no room")
		} else {
			m.unlock(buf)
		}
	})
}

func TestSocketWriterAwaitRoom(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(t *testing.T, m *testWriter, over *bool)
		want bool
	}{
		{"the client reads", func(t *testing.T, m *testWriter, _ *bool) { m.read(t, 1) }, true},
		{"the client goes", func(_ *testing.T, m *testWriter, _ *bool) { _ = m.client.Close() }, false},
		{"waiting is of no use any more", func(_ *testing.T, m *testWriter, over *bool) {
			m.mu.Lock()
			*over = true
			m.mu.Unlock()
			m.wake()
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newTestWriter(t)
				m.stuff(1)
				synctest.Wait()
				m.stuff(stopReadingAt + 1)
				over := false
				answer := make(chan bool, 1)
				go func() { answer <- m.awaitRoom(func() bool { return over }) }()
				synctest.Wait()
				select {
				case <-answer:
					t.Fatal("it did not wait")
				default:
				}
				c.then(t, m, &over)
				if got := <-answer; got != c.want {
					t.Errorf("got %t, want %t", got, c.want)
				}
			})
		})
	}
}

// TestSocketWriterBroken: when the client is gone, everything ends and nothing is kept.
func TestSocketWriterBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestWriter(t)
		_ = m.client.Close()
		m.stuff(10)
		<-m.ended
		if !m.failed {
			t.Error("the end was not reported")
		}
		m.stuff(10)
		if _, ok := m.lockFor(&consumer{}); ok {
			t.Error("a broken outbox has room")
		}
		if n := len(m.buf); n != 0 {
			t.Errorf("bytes kept: got %d, want 0", n)
		}
		if _, err := m.conn.Write([]byte{1}); err == nil {
			t.Error("the connection is open")
		}
	})
}

// TestSocketWriterLargeBuffer: a buffer that was once very large is not kept.
func TestSocketWriterLargeBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTestWriter(t)
		m.stuff(keptBuffer + 1)
		m.read(t, keptBuffer+1)
		m.mu.Lock()
		defer m.mu.Unlock()
		if n := cap(m.buf) + cap(m.spare); n > keptBuffer {
			t.Errorf("kept: got %d bytes, want at most %d", n, keptBuffer)
		}
	})
}
