package rabbit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestGatherWritesAllInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		g := gather(client)
		var want bytes.Buffer
		for i := range 1000 {
			p := bytes.Repeat([]byte{byte(i)}, i%50)
			want.Write(p)
			if n, err := g.Write(p); n != len(p) || err != nil {
				t.Fatalf("got %d, %v; want %d, nil", n, err, len(p))
			}
			clear(p) // the caller may use it again
		}
		got := make(chan []byte)
		go func() {
			all, _ := io.ReadAll(server)
			got <- all
		}()
		if err := g.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if all := <-got; !bytes.Equal(all, want.Bytes()) {
			t.Errorf("got %d bytes, want the %d that were written, in order", len(all), want.Len())
		}
		if _, err := g.Write([]byte("x")); err == nil {
			t.Error("write after close: got nil, want an error")
		}
		<-time.After(time.Second)
	})
}

// What comes while the socket is busy leaves together.
func TestGatherGathers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		counted := &countingConn{Conn: client}
		g := gather(counted)
		for range 100 {
			_, _ = g.Write([]byte("12345678"))
		}
		synctest.Wait() // the writer is stuck with the first
		if _, err := io.ReadFull(server, make([]byte, 800)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if counted.writes > 2 {
			t.Errorf("got %d system calls for 100 writes, want at most 2", counted.writes)
		}
		_ = g.Close()
		_ = server.Close()
		<-time.After(time.Second)
	})
}

type countingConn struct {
	net.Conn
	writes int
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

// A peer that does not read: writing continues, and closing takes a moment at most.
func TestGatherStalledPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		g := gather(client)
		for range 10 {
			if _, err := g.Write(make([]byte, 100_000)); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		_ = g.Close()
		if took := time.Since(began); took > time.Second {
			t.Errorf("close took %v, want %v at most", took, flushGrace)
		}
		<-time.After(time.Second)
		if _, err := client.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection is not closed: %v", err)
		}
		_ = server.Close()
	})
}

// A write that fails closes the connection, so that the reader notices, and later writes return why.
func TestGatherWriteError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		g := gather(client)
		_ = server.Close()
		_, _ = g.Write([]byte("x"))
		if _, err := g.Read(make([]byte, 1)); err == nil {
			t.Error("read: got nil, want an error")
		}
		synctest.Wait()
		if _, err := g.Write([]byte("x")); err == nil {
			t.Error("second write: got nil, want an error")
		}
		_ = g.Close()
		_ = g.Close() // twice does no harm
		<-time.After(time.Second)
	})
}

func TestGatherConcurrently(t *testing.T) {
	client, server := net.Pipe()
	g := gather(client)
	total := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, server)
		total <- n
	}()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				_, _ = g.Write([]byte("0123456789"))
			}
		})
	}
	all.Wait()
	_ = g.Close()
	if n := <-total; n != 8*500*10 {
		t.Errorf("got %d bytes, want %d", n, 8*500*10)
	}
}

// promptConn takes some bytes without waiting.
type promptConn struct {
	countingConn
	room  int
	taken []byte // that way
	err   error
}

func (c *promptConn) TryWrite(p []byte) (int, error) {
	n := min(c.room, len(p))
	c.taken, c.room = append(c.taken, p[:n]...), c.room-n
	return n, c.err
}

// rest lets so much time pass that the next write is one at once.
func (g *gatherConn) rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.last, g.pauses = time.Time{}, manyPauses-1
}

// What comes after pauses is written at once, as far as there is room, and what does not is left to the writer.
func TestGatherWritesAtOnceAfterPauses(t *testing.T) {
	for _, c := range []struct {
		name  string
		room  int
		after time.Duration
		taken string
		left  string
	}{
		{"room for all", 100, pause, "45", "123"},
		{"room for some", 1, pause, "4", "1235"},
		{"no room", 0, pause, "", "12345"},
		{"no pauses", 100, pause - 1, "", "12345"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server := net.Pipe()
				conn := &promptConn{countingConn: countingConn{Conn: client}, room: c.room}
				g := gather(conn)
				got := make(chan string)
				go func() {
					all, _ := io.ReadAll(server)
					got <- string(all)
				}()
				for _, word := range []string{"1", "2", "3", "4", "5"} {
					_, _ = g.Write([]byte(word))
					<-time.After(c.after)
				}
				_ = g.Close()
				if left := <-got; string(conn.taken) != c.taken || left != c.left {
					t.Errorf("written at once %q and by the writer %q, want %q and %q", conn.taken, left, c.taken, c.left)
				}
			})
		})
	}
}

// Nobody writes at once while the writer waits for the peer: the order would be lost.
func TestGatherNeverPassesItsWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		conn := &promptConn{countingConn: countingConn{Conn: client}}
		g := gather(conn)
		g.rest()
		_, _ = g.Write([]byte("one")) // no room: the writer waits for the peer
		synctest.Wait()
		conn.room = 100
		g.rest()
		_, _ = g.Write([]byte("two"))
		got := make([]byte, 6)
		if _, err := io.ReadFull(server, got); err != nil || string(got) != "onetwo" || len(conn.taken) > 0 {
			t.Errorf("got %q, %v, and %q past the writer; want onetwo by the writer", got, err, conn.taken)
		}
		_ = g.Close()
		synctest.Wait()
		_ = server.Close()
	})
}

// That it cannot be written at once is the writer's to find out, who closes the connection.
func TestGatherErrorAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		conn := &promptConn{countingConn: countingConn{Conn: client}, err: errors.New("broken")}
		g := gather(conn)
		g.rest()
		_ = server.Close()
		if _, err := g.Write([]byte("x")); err != nil {
			t.Errorf("got %v, want nil: others are told", err)
		}
		<-g.done
		if _, err := g.Write([]byte("x")); err == nil {
			t.Error("second write: got nil, want an error")
		}
	})
}

// On a real socket of which the peer reads late, all arrives in order.
func TestGatherSocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	g := gather(client)
	if g.prompt == nil {
		t.Fatal("got no way to write to a socket without waiting")
	}
	const parts = 1500 // more than a socket has room for
	part := make([]byte, 8<<10)
	for i := range uint64(parts) {
		binary.BigEndian.PutUint64(part, i)
		if i%3 == 0 {
			g.rest()
		}
		_, _ = g.Write(part)
	}
	for i := range uint64(parts) {
		if _, err := io.ReadFull(server, part); err != nil || binary.BigEndian.Uint64(part) != i {
			t.Fatalf("part %d: got number %d, %v", i, binary.BigEndian.Uint64(part), err)
		}
	}
	_ = g.Close()
	<-g.done
}
