package rabbit

import (
	"bytes"
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

// A peer that does not read: writing goes on, and closing takes a moment at most.
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

// A write that fails closes the connection, so that the reader notices, and later writes say why.
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
