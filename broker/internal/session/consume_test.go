package session

import (
	"log/slog"
	"net"
	"testing"

	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// TestConsumeDeleted: a queue that is deleted while a consumer subscribes is reported as missing.
func TestConsumeDeleted(t *testing.T) {
	n, err := Open(node.Config{Logger: slog.New(slog.DiscardHandler), Users: []node.User{{Name: "me", Permissions: map[string]node.Permission{"*": node.Everything()}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	v := n.Vhost("/")
	server, client := net.Pipe()
	defer client.Close()
	c := newConnection(n, server)
	c.User, c.vhost, c.access = "me", v, &node.Access{Node: n.Node, Vhost: v, User: "me"}
	q, err := v.DeclareQueue(node.QueueSpec{Name: "q", Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	q.Core.Delete(false, false) // and it is still to be found by its name
	err = newChannel(c, 1).consume(&wire.BasicConsume{Queue: "q"})
	if want := "NOT_FOUND - no queue 'q' in vhost '/'"; replyText(err) != want {
		t.Errorf("got %s, want %s", replyText(err), want)
	}
}
