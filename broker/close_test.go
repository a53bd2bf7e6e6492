package broker_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/internal/wire"
)

// A client that publishes on other channels while it closes the connection gets close-ok, and then the end: nothing resets its socket.
func TestCloseOKComesThrough(t *testing.T) {
	server := &broker.Server{Logger: quiet()}
	connect := listen(t, server, nil)
	for range 20 {
		p := enter(t, connect())
		more := message("", "nowhere", wire.Properties{}, make([]byte, 16<<10))
		p.send(append(wire.AppendMethod(nil, 0, &wire.ConnectionClose{ReplyCode: wire.ReplySuccess}), more...))
		for range 256 {
			if _, err := p.conn.Write(more); err != nil {
				t.Fatalf("publish behind connection.close: got %v, want the broker to read on", err)
			}
		}
		expect[*wire.ConnectionCloseOK](p)
		if _, err := p.method(); !errors.Is(err, io.EOF) {
			t.Fatalf("after connection.close-ok: got %v, want the end", err)
		}
		if err := p.conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The same with TLS, where the end is a message of its own.
func TestCloseOKComesThroughTLS(t *testing.T) {
	certificate, roots := selfSigned(t)
	server := &broker.Server{Logger: quiet(), TLS: &tls.Config{Certificates: []tls.Certificate{certificate}}}
	connect := listen(t, server, nil)
	p := enter(t, tls.Client(connect(), &tls.Config{RootCAs: roots, ServerName: "localhost"}))
	p.send(wire.AppendMethod(nil, 0, &wire.ConnectionClose{ReplyCode: wire.ReplySuccess}))
	for range 64 {
		p.publish("", "nowhere", wire.Properties{}, make([]byte, 16<<10))
	}
	expect[*wire.ConnectionCloseOK](p)
	if _, err := p.method(); !errors.Is(err, io.EOF) {
		t.Fatalf("after connection.close-ok: got %v, want the end", err)
	}
}

// The broker closes the socket of a client that has closed the connection and stays. Meanwhile it does not list the client, and can be closed itself.
func TestGuestWhoStays(t *testing.T) {
	for name, end := range map[string]func(*broker.Server, net.Conn){
		"for ever":                func(_ *broker.Server, conn net.Conn) { untilRefused(conn) },
		"until the broker closes": func(s *broker.Server, _ net.Conn) { _ = s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			server := &broker.Server{}
			inBubble(t, server, func(t *testing.T) {
				p := enter(t, dial(t, server))
				p.sendMethods(0, &wire.ConnectionClose{ReplyCode: wire.ReplySuccess})
				expect[*wire.ConnectionCloseOK](p)
				synctest.Wait()
				engine, err := access.Start(server, nil)
				if err != nil {
					t.Fatal(err)
				}
				if shown := len(engine.Connections()); shown != 0 {
					t.Errorf("%d connections are shown after connection.close-ok, want none", shown)
				}
				began := time.Now()
				end(server, p.conn)
				if lasted := time.Since(began); name != "for ever" && lasted > 0 || lasted > 6*time.Second {
					t.Errorf("the broker has listened for %v after connection.close-ok", lasted)
				}
			})
		})
	}
}

// untilRefused writes until the broker reads no more.
func untilRefused(conn net.Conn) {
	for {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write(make([]byte, 1000)); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond) // virtual time
	}
}
