package broker_test

import (
	"context"
	"crypto/rand"
	"net"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/amqp"
	"github.com/rehop/rehop/internal/node"
)

// The suite runs in memory and on disk: what a client sees must not differ.
func TestConformance(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			server := &broker.Server{Dir: dir, Logger: quiet()}
			t.Cleanup(func() {
				if err := server.Close(); err != nil {
					t.Error(err)
				}
			})
			engine, err := server.Node()
			if err != nil {
				t.Fatal(err)
			}
			amqp.Run(t, &embedded{server, engine})
		})
	}
}

// embedded is this broker as the suite sees it.
type embedded struct {
	server *broker.Server
	node   *node.Node
}

func (e *embedded) Version() string { return "3.10.8" }

func (e *embedded) Dial(ctx context.Context) (net.Conn, error) { return e.server.Dial(ctx, "", "") }

func (e *embedded) Vhost(t testing.TB) amqp.Vhost {
	t.Helper()
	name := "v" + rand.Text()
	must(t, e.node.AddVhost(name))
	user, password := e.AddUser(t, name, ".*", ".*", ".*")
	t.Cleanup(func() { must(t, e.node.DeleteVhost(name)) })
	return amqp.Vhost{Name: name, User: user, Password: password}
}

func (e *embedded) AddUser(t testing.TB, vhost, configure, write, read string) (user, password string) {
	t.Helper()
	user, password = "u"+rand.Text(), rand.Text()
	must(t, e.node.PutUser(node.User{Name: user, Password: password,
		Permissions: map[string]node.Permission{vhost: {Configure: configure, Write: write, Read: read}}}))
	t.Cleanup(func() { must(t, e.node.DeleteUser(user)) })
	return user, password
}

func (e *embedded) SetPolicy(t testing.TB, vhost string, p amqp.Policy) {
	t.Helper()
	must(t, e.node.Vhost(vhost).PutPolicy(node.Policy{Name: p.Name, Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: p.Priority, Definition: p.Definition}))
}

func (e *embedded) DeletePolicy(t testing.TB, vhost, name string) {
	t.Helper()
	must(t, e.node.Vhost(vhost).DeletePolicy(name))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
