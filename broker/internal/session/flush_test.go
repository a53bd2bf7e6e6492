package session

import (
	"net"
	"testing"
	"testing/synctest"
)

// promptConn accepts some bytes at once, and passes on the rest.
type promptConn struct {
	net.Conn
	room  int
	taken []byte
}

func (c *promptConn) TryWrite(b []byte) (int, error) {
	n := min(c.room, len(b))
	c.taken = append(c.taken, b[:n]...)
	c.room -= n
	return n, nil
}

func (c *promptConn) Write(b []byte) (int, error) {
	c.taken = append(c.taken, b...)
	return c.Conn.Write(b)
}

// TestSocketWriterFlush: what the client reads at once is not left to the writer, and the order stays.
func TestSocketWriterFlush(t *testing.T) {
	for _, c := range []struct {
		name string
		room int
		want int // bytes that go through the writer
	}{{"all at once", 100, 0}, {"some of it", 7, 5}, {"nothing", 0, 12}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, client := net.Pipe()
				conn := &promptConn{Conn: server, room: c.room}
				m := &testWriter{socketWriter: newSocketWriter(conn), client: client}
				go m.write(func(*consumer) {}, func() {})
				synctest.Wait()
				for _, part := range []string{"one ", "two ", "last"} {
					m.flush(append(m.lock(), part...))
				}
				synctest.Wait()
				if c.want > 0 {
					m.read(t, c.want)
				}
				m.end()
				<-m.ended
				if got := string(conn.taken); got != "one two last" || m.sent() != 12 {
					t.Errorf("got %q, %d bytes sent, want all in order", got, m.sent())
				}
				_ = client.Close()
			})
		})
	}
}

// TestSocketWriterFlushBusy: while the writer waits for the client, nothing overtakes it.
func TestSocketWriterFlushBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := net.Pipe()
		conn := &promptConn{Conn: server, room: 100}
		m := &testWriter{socketWriter: newSocketWriter(conn), client: client}
		go m.write(func(*consumer) {}, func() {})
		m.unlock(append(m.lock(), "slow "...))
		synctest.Wait() // the writer has it
		m.flush(append(m.lock(), "fast"...))
		synctest.Wait()
		if got := string(conn.taken); got != "slow " {
			t.Errorf("got %q while the writer is busy, want what it has", got)
		}
		m.read(t, len("slow "))
		m.read(t, len("fast"))
		m.end()
		<-m.ended
		_ = client.Close()
	})
}
