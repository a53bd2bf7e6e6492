package node

import (
	"log/slog"
	"net"
	"testing"

	"github.com/rehop/rehop/internal/wire"
)

// TestConsumeDeleted: a queue that is deleted between being found and being consumed from was never there.
func TestConsumeDeleted(t *testing.T) {
	n, err := Open(Config{Logger: slog.New(slog.DiscardHandler), Users: []User{{Name: "me", Permissions: map[string]Permission{"*": Everything()}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	v := n.Vhost("/")
	server, client := net.Pipe()
	defer client.Close()
	c := newConnection(n, server)
	c.User, c.vhost, c.access = "me", v, &access{node: n, vhost: v, user: "me"}
	q := must{t, v}.queue("q")
	q.core.Delete(false, false) // and it is still to be found by its name
	err = newChannel(c, 1).consume(&wire.BasicConsume{Queue: "q"})
	if want := "NOT_FOUND - no queue 'q' in vhost '/'"; said(err) != want {
		t.Errorf("got %s, want %s", said(err), want)
	}
}
