package broker_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/internal/wire"
)

func isDone(s *broker.Server) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// When the disk fails, the server reports it to its program and stops serving. The next server has everything that was confirmed.
func TestFailedDisk(t *testing.T) {
	dir := t.TempDir()
	server := &broker.Server{Dir: dir, Logger: slog.New(slog.DiscardHandler)}
	defer server.Close()
	done := server.Done() // before it is started
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { served <- server.Serve(context.WithoutCancel(t.Context()), ln) }()
	p := enter(t, dial(t, server))
	p.sendMethods(1, &wire.QueueDeclare{Queue: "q", Durable: true}, &wire.ConfirmSelect{})
	expect[*wire.QueueDeclareOK](p)
	expect[*wire.ConfirmSelectOK](p)
	p.publish("", "q", wire.Properties{DeliveryMode: 2}, []byte("confirmed"))
	expect[*wire.BasicAck](p)
	if err := server.Err(); err != nil || isDone(server) {
		t.Fatalf("got %v and done %v from a server that works", err, isDone(server))
	}
	engine, err := access.Start(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	engine.FailDisk(syscall.EIO)
	<-done
	if err := server.Err(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got error %v, want %v and the directory", err, syscall.EIO)
	}
	if err := <-served; !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v from Serve, want %v", err, syscall.EIO)
	}
	expect[*wire.ConnectionClose](p)
	p.sendMethods(0, &wire.ConnectionCloseOK{})
	late, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Serve(t.Context(), late); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v from Serve after the failure, want %v", err, syscall.EIO)
	}
	if err := server.Close(); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v from Close, want %v", err, syscall.EIO)
	}
	if err := server.Err(); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v after Close, want what made it fail", err)
	}

	next := start(t, &broker.Server{Dir: dir})
	p = enter(t, dial(t, next))
	p.sendMethods(1, &wire.BasicGet{Queue: "q"})
	expect[*wire.BasicGetOK](p)
}

// Done and Err distinguish a server that was closed from one that could not start.
func TestDone(t *testing.T) {
	closed := &broker.Server{}
	if err := closed.Start(); err != nil {
		t.Fatal(err)
	}
	unused := &broker.Server{}
	for name, s := range map[string]*broker.Server{"closed": closed, "never started": unused} {
		if err := s.Err(); err != nil || isDone(s) {
			t.Errorf("%s: got %v and done %v before Close", name, err, isDone(s))
		}
		for range 2 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Err(); !errors.Is(err, broker.ErrClosed) || !isDone(s) {
			t.Errorf("%s: got %v and done %v after Close, want %v and true", name, err, isDone(s), broker.ErrClosed)
		}
	}
	bad := &broker.Server{FrameMax: 1}
	if err := bad.Start(); err == nil || !isDone(bad) || bad.Err().Error() != err.Error() {
		t.Errorf("got %v from Start, done %v and %v from Err, want the same error twice", err, isDone(bad), bad.Err())
	}
}
