//go:build unix

package session

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// TestPromptSocket: a client that does not read blocks nothing, and gets everything when it reads.
func TestPromptSocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	o := newSocketWriter(server)
	if o.prompt == nil {
		t.Fatal("got no way to write to a socket without waiting")
	}
	go o.write(func(*consumer) {}, func() {})
	const parts = 1500 // more than a socket has room for
	part := make([]byte, 8<<10)
	for i := range uint64(parts) {
		binary.BigEndian.PutUint64(part, i)
		o.flush(append(o.lock(), part...))
	}
	o.end()
	for i := range uint64(parts) {
		got := make([]byte, len(part))
		if _, err := io.ReadFull(client, got); err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
		binary.BigEndian.PutUint64(part, i)
		if !bytes.Equal(got, part) {
			t.Fatalf("part %d: got number %d", i, binary.BigEndian.Uint64(got))
		}
	}
	<-o.ended
	if o.sent() != parts*uint64(len(part)) {
		t.Errorf("got %d bytes sent, want %d", o.sent(), parts*len(part))
	}
	_ = server.Close()
}
