//go:build unix

package prompt_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/internal/prompt"
)

// connected are both ends of a connection.
func connected(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

// Who does not read is not waited for: what there is no room for is not written, and that is no error.
func TestFullSocket(t *testing.T) {
	client, server := connected(t)
	w := prompt.To(client)
	part := bytes.Repeat([]byte("x"), 64<<10)
	written, full := 0, false
	for range 1000 {
		n, err := w.TryWrite(part)
		if err != nil {
			t.Fatalf("got %v, want nil", err)
		}
		written += n
		if full = n == 0; full {
			break
		}
	}
	if !full {
		t.Fatal("the socket has room for everything: nothing is shown")
	}
	_ = client.(*net.TCPConn).CloseWrite()
	if all, err := io.ReadAll(server); err != nil || len(all) != written {
		t.Errorf("the peer got %d bytes, %v; want the %d that were written", len(all), err, written)
	}
}

func TestErrors(t *testing.T) {
	client, _ := connected(t)
	w := prompt.To(client)
	_ = client.SetWriteDeadline(time.Unix(1, 0))
	if n, err := w.TryWrite([]byte("x")); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: got %d, %v", n, err)
	}
	_ = client.SetWriteDeadline(time.Time{})
	if n, err := w.TryWrite([]byte("x")); n != 1 || err != nil {
		t.Errorf("without a deadline: got %d, %v", n, err)
	}
	_ = client.Close()
	if n, err := w.TryWrite([]byte("x")); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: got %d, %v", n, err)
	}
}

// A connection that is no socket, as one with TLS, has no such way.
func TestNoSocket(t *testing.T) {
	client, server := net.Pipe()
	defer server.Close()
	defer client.Close()
	if w := prompt.To(client); w != nil {
		t.Errorf("got %T, want none", w)
	}
	if r := prompt.From(client); r != nil {
		t.Errorf("got %T, want none", r)
	}
}

// What is there is read at once, and what comes while somebody looks is read then.
func TestReadWithin(t *testing.T) {
	client, server := connected(t)
	r := prompt.From(server)
	buf := make([]byte, 10)
	if n, err := r.ReadWithin(buf, time.Millisecond); n != 0 || err != nil {
		t.Errorf("nothing has come: got %d, %v", n, err)
	}
	if n, err := r.ReadWithin(nil, time.Minute); n != 0 || err != nil {
		t.Errorf("no room: got %d, %v", n, err)
	}
	var writing sync.WaitGroup
	writing.Go(func() { _, _ = client.Write([]byte("early")) })
	for n := 0; n == 0; { // a look is short, however long it may take
		var err error
		if n, err = r.ReadWithin(buf, time.Minute); err != nil || n > 0 && string(buf[:n]) != "early" {
			t.Fatalf("got %q, %v", buf[:n], err)
		}
	}
	writing.Wait()
	_ = server.SetReadDeadline(time.Unix(1, 0))
	if n, err := r.ReadWithin(buf, time.Minute); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: got %d, %v", n, err)
	}
	_ = server.SetReadDeadline(time.Time{})
	_ = client.Close()
	if n, err := r.ReadWithin(buf, time.Minute); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the peer has gone: got %d, %v", n, err)
	}
	_ = server.Close()
	if n, err := r.ReadWithin(buf, time.Minute); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed: got %d, %v", n, err)
	}
}

// Where the clock stands still while a goroutine polls, a read ends anyway.
func TestReadWithinVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, server := connected(t)
		if n, err := prompt.From(server).ReadWithin(make([]byte, 10), time.Millisecond); n != 0 || err != nil {
			t.Errorf("nothing has come: got %d, %v", n, err)
		}
	})
}

// A deadline and a Close end a look soon, and what is read next.
func TestReadWithinInterrupted(t *testing.T) {
	for name, interrupt := range map[string]func(net.Conn){
		"deadline": func(c net.Conn) { _ = c.SetReadDeadline(time.Unix(1, 0)) },
		"close":    func(c net.Conn) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			_, server := connected(t)
			r := prompt.From(server)
			var interrupting sync.WaitGroup
			interrupting.Go(func() { interrupt(server) })
			for {
				_, err := r.ReadWithin(make([]byte, 10), time.Minute)
				if err == nil {
					continue
				}
				if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
					t.Errorf("got %v", err)
				}
				break
			}
			interrupting.Wait()
		})
	}
}
