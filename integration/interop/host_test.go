package interop

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/node"
)

// host is a virtual host with a user of its own, on one of the brokers. A policy has messages in the queue "expiring" die soon.
type host struct {
	url   string
	vhost string
	cut   func() error // closes the user's connections, as operators do
}

// expiring is the policy, for clients that cannot give a queue arguments.
var expiring = map[string]any{"message-ttl": 200, "dead-letter-exchange": "", "dead-letter-routing-key": "graveyard"}

// closed is what RabbitMQ tells clients whose connections an operator closes.
const closed = "Closed via management plugin"

func rabbitMQ(t *testing.T) *host {
	t.Helper()
	rabbit := lab.Single(t)
	user, password := "u"+rand.Text(), rand.Text()
	rabbit.API("PUT", "/api/users/"+user, map[string]string{"password": password, "tags": ""}, nil)
	t.Cleanup(func() { rabbit.API("DELETE", "/api/users/"+user, nil, nil) })
	rabbit.API("PUT", "/api/permissions/"+rabbit.Vhost+"/"+user, map[string]string{"configure": ".*", "write": ".*", "read": ".*"}, nil)
	rabbit.API("PUT", "/api/policies/"+rabbit.Vhost+"/expiring", map[string]any{"pattern": "^expiring$", "apply-to": "queues", "definition": expiring}, nil)
	return &host{
		url:   strings.Replace(rabbit.URL, "guest:guest", user+":"+password, 1),
		vhost: rabbit.Vhost,
		cut:   func() error { return rabbit.TryAPI("DELETE", "/api/connections/username/"+user, nil, nil) },
	}
}

func embedded(t *testing.T) *host {
	t.Helper()
	user, password, vhost := "u"+rand.Text(), rand.Text(), "v"+rand.Text()
	server := &broker.Server{
		Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Users: []broker.User{{Name: user, Password: password, Permissions: map[string]broker.Permission{vhost: node.Everything()}}},
	}
	engine, err := server.Node()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), ln) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	if err := engine.AddVhost(vhost); err != nil {
		t.Fatal(err)
	}
	if err := engine.Vhost(vhost).PutPolicy(node.Policy{Name: "expiring", Pattern: "^expiring$", ApplyTo: "queues", Definition: expiring}); err != nil {
		t.Fatal(err)
	}
	return &host{
		url:   "amqp://" + user + ":" + password + "@" + ln.Addr().String() + "/" + vhost,
		vhost: vhost,
		cut: func() error {
			for _, c := range engine.Connections() {
				c.Close(closed)
			}
			return nil
		},
	}
}
