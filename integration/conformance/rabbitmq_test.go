// Package conformance runs the AMQP suite on a real RabbitMQ, whose answers are the measure.
package conformance

import (
	"context"
	"crypto/rand"
	"net"
	"net/url"
	"testing"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/amqp"
)

func TestMain(m *testing.M) { kit.Main(m, 8) }

func TestRabbitMQ(t *testing.T) {
	rabbit := lab.Single(t)
	var overview struct {
		Version string `json:"rabbitmq_version"`
	}
	rabbit.API("GET", "/api/overview", nil, &overview)
	amqp.Run(t, &rabbitMQ{lab: rabbit, version: overview.Version})
}

// rabbitMQ is the single node that scripts/services starts.
type rabbitMQ struct {
	lab     *lab.Rabbit
	version string
}

func (r *rabbitMQ) Version() string { return r.version }

func (r *rabbitMQ) Dial(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(r.lab.URL)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", u.Host)
}

func (r *rabbitMQ) Vhost(t testing.TB) amqp.Vhost {
	t.Helper()
	vhost := lab.Single(t).Vhost
	user, password := r.AddUser(t, vhost, ".*", ".*", ".*")
	return amqp.Vhost{Name: vhost, User: user, Password: password}
}

func (r *rabbitMQ) AddUser(t testing.TB, vhost, configure, write, read string) (user, password string) {
	t.Helper()
	user, password = "u"+rand.Text(), rand.Text()
	r.call(t, "PUT", "/api/users/"+user, map[string]string{"password": password, "tags": ""})
	t.Cleanup(func() { r.call(t, "DELETE", "/api/users/"+user, nil) })
	r.call(t, "PUT", "/api/permissions/"+vhost+"/"+user, map[string]string{"configure": configure, "write": write, "read": read})
	return user, password
}

func (r *rabbitMQ) SetPolicy(t testing.TB, vhost string, policy amqp.Policy) {
	t.Helper()
	r.call(t, "PUT", "/api/policies/"+vhost+"/"+policy.Name, policy)
}

func (r *rabbitMQ) DeletePolicy(t testing.TB, vhost, name string) {
	t.Helper()
	r.call(t, "DELETE", "/api/policies/"+vhost+"/"+name, nil)
}

func (r *rabbitMQ) SetVhostLimit(t testing.TB, vhost, name string, limit int) {
	t.Helper()
	r.call(t, "PUT", "/api/vhost-limits/"+vhost+"/"+name, map[string]int{"value": limit})
}

func (r *rabbitMQ) SetUserLimit(t testing.TB, user, name string, limit int) {
	t.Helper()
	r.call(t, "PUT", "/api/user-limits/"+user+"/"+name, map[string]int{"value": limit})
}

func (r *rabbitMQ) SetTopicPermission(t testing.TB, vhost, user, exchange, write, read string) {
	t.Helper()
	r.call(t, "PUT", "/api/topic-permissions/"+vhost+"/"+user, map[string]string{"exchange": exchange, "write": write, "read": read})
}

// SetDefaultQueueType makes the virtual host anew: RabbitMQ 3.10 takes the type with definitions of one that is not there, and never later.
func (r *rabbitMQ) SetDefaultQueueType(t testing.TB, vhost, typ string) {
	t.Helper()
	var permissions []map[string]string
	if err := r.lab.TryAPI("GET", "/api/vhosts/"+vhost+"/permissions", nil, &permissions); err != nil {
		t.Fatal(err)
	}
	r.call(t, "DELETE", "/api/vhosts/"+vhost, nil)
	r.call(t, "POST", "/api/definitions", map[string]any{"permissions": permissions,
		"vhosts": []map[string]any{{"name": vhost, "metadata": map[string]any{"default_queue_type": typ}}}})
}

// call uses the management API on behalf of a case; the lab would fail the whole suite.
func (r *rabbitMQ) call(t testing.TB, method, path string, in any) {
	t.Helper()
	if err := r.lab.TryAPI(method, path, in, nil); err != nil {
		t.Fatal(err)
	}
}
