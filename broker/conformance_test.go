package broker_test

import (
	"context"
	"crypto/rand"
	"net"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/internal/conformance/amqp"
)

// The suite runs as each release, in memory and on disk: clients must not see a difference.
func TestConformance(t *testing.T) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ313, broker.RabbitMQ40, broker.RabbitMQ43} {
		for name, dir := range map[string]string{"memory": "", "disk": t.TempDir()} {
			t.Run(release.String()+"/"+name, func(t *testing.T) {
				t.Parallel() // one case of each waits for ten seconds
				server := &broker.Server{Dir: dir, Compat: release, Logger: quiet()}
				t.Cleanup(func() {
					if err := server.Close(); err != nil {
						t.Error(err)
					}
				})
				engine, err := access.Start(server, nil)
				if err != nil {
					t.Fatal(err)
				}
				amqp.Run(t, &embedded{server, engine})
			})
		}
	}
}

// embedded is this broker for the suite.
type embedded struct {
	server *broker.Server
	node   *session.Server
}

func (e *embedded) Version() string { return e.server.Compat.Release() }

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
	_, err := e.node.EditUser(user, true, func(u *node.User) {
		u.Password, u.Permissions[vhost] = password, node.Permission{Configure: configure, Write: write, Read: read}
	})
	must(t, err)
	t.Cleanup(func() { must(t, e.node.DeleteUser(user)) })
	return user, password
}

func (e *embedded) SetPolicy(t testing.TB, vhost string, p amqp.Policy) {
	t.Helper()
	must(t, e.node.Vhost(vhost).PutPolicy(node.Policy{Name: p.Name, Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: p.Priority, Definition: p.Definition}))
}

func (e *embedded) DeletePolicy(t testing.TB, vhost, name string) {
	t.Helper()
	must(t, e.node.Vhost(vhost).DeletePolicy(name, false))
}

func (e *embedded) SetVhostLimit(t testing.TB, vhost, name string, limit int) {
	t.Helper()
	must(t, e.node.Vhost(vhost).EditLimits(func(l node.Limits) { l[name] = int64(limit) }))
}

func (e *embedded) SetUserLimit(t testing.TB, user, name string, limit int) {
	t.Helper()
	_, err := e.node.EditUser(user, false, func(u *node.User) {
		if u.Limits == nil {
			u.Limits = make(node.Limits)
		}
		u.Limits[name] = int64(limit)
	})
	must(t, err)
}

func (e *embedded) SetTopicPermission(t testing.TB, vhost, user, exchange, write, read string) {
	t.Helper()
	_, err := e.node.EditUser(user, false, func(u *node.User) {
		u.TopicPermissions = map[string]map[string]node.TopicPermission{vhost: {exchange: {Write: write, Read: read}}}
	})
	must(t, err)
}

func (e *embedded) SetDefaultQueueType(t testing.TB, vhost, typ string) {
	t.Helper()
	must(t, e.node.Vhost(vhost).Describe(func(m *node.VhostMetadata) { m.DefaultQueueType = typ }))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}
