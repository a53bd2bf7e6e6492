package management

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// hole is a client that fails its test when a call does.
type hole struct {
	*rabbithole.Client
	t *testing.T
}

func newHole(t *testing.T, p *place) *hole {
	t.Helper()
	client, err := rabbithole.NewClient(p.api.String(), "guest", "guest")
	if err != nil {
		t.Fatal(err)
	}
	return &hole{client, t}
}

// done takes the result of a call that changes something.
func (h *hole) done(r *http.Response, err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	_ = r.Body.Close()
	if r.StatusCode >= 300 {
		h.t.Fatalf("%s %s: got %s", r.Request.Method, r.Request.URL, r.Status)
	}
}

// got takes the result of a call that asks for something.
func got[T any](h *hole) func(value T, err error) T {
	return func(value T, err error) T {
		h.t.Helper()
		if err != nil {
			h.t.Fatal(err)
		}
		return value
	}
}

// settle is how long RabbitMQ's statistics may lag behind.
const settle = kit.Limit

func TestRabbitHole(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		h := newHole(t, p)
		h.done(h.DeclareQueue(p.vhost, "orders/1", rabbithole.QueueSettings{Durable: true, Arguments: map[string]any{"x-message-ttl": 60000}}))
		h.done(h.DeclareQueue(p.vhost, "large", rabbithole.QueueSettings{Type: "quorum", Durable: true}))
		h.done(h.DeclareExchange(p.vhost, "events", rabbithole.ExchangeSettings{Type: "topic", Durable: true}))
		h.done(h.DeclareExchange(p.vhost, "all", rabbithole.ExchangeSettings{Type: "fanout", Durable: true}))
		binding := rabbithole.BindingInfo{Source: "events", Destination: "orders/1", DestinationType: "queue", RoutingKey: "order.#", Arguments: map[string]any{"n": 1}}
		h.done(h.DeclareBinding(p.vhost, binding))
		h.done(h.DeclareBinding(p.vhost, rabbithole.BindingInfo{Source: "all", Destination: "events", DestinationType: "exchange"}))

		if q := got[*rabbithole.DetailedQueueInfo](h)(h.GetQueue(p.vhost, "orders/1")); q.Name != "orders/1" || q.Vhost != p.vhost || !q.Durable || q.Arguments["x-message-ttl"] != 60000.0 {
			t.Errorf("the queue is %+v", q)
		}
		if q := got[*rabbithole.DetailedQueueInfo](h)(h.GetQueue(p.vhost, "large")); q.Type != "quorum" || len(q.Members) != 1 || q.Leader == "" {
			t.Errorf("the quorum queue is %+v", q)
		}
		if all := got[[]rabbithole.QueueInfo](h)(h.ListQueuesIn(p.vhost)); len(all) != 2 {
			t.Errorf("%d queues, want 2", len(all))
		}
		paged := got[rabbithole.PagedQueueInfo](h)(h.PagedListQueuesWithParametersIn(p.vhost, url.Values{"page": {"2"}, "page_size": {"1"}, "sort": {"name"}}))
		if paged.PageCount != 2 || len(paged.Items) != 1 || paged.Items[0].Name != "orders/1" || paged.TotalCount != 2 {
			t.Errorf("the second page is %+v, want orders/1", paged)
		}
		if x := got[*rabbithole.DetailedExchangeInfo](h)(h.GetExchange(p.vhost, "events")); x.Type != "topic" || !x.Durable {
			t.Errorf("the exchange is %+v", x)
		}
		found := got[[]rabbithole.BindingInfo](h)(h.ListQueueBindingsBetween(p.vhost, "events", "orders/1"))
		if len(found) != 1 || found[0].RoutingKey != "order.#" || found[0].Arguments["n"] != 1.0 {
			t.Fatalf("the bindings are %+v", found)
		}
		if all := got[[]rabbithole.BindingInfo](h)(h.ListExchangeBindingsWithSource(p.vhost, "all")); len(all) != 1 || all[0].Destination != "events" {
			t.Errorf("the bindings from all are %+v", all)
		}
		if all := got[[]rabbithole.BindingInfo](h)(h.ListQueueBindings(p.vhost, "orders/1")); len(all) != 2 {
			t.Errorf("%d bindings of the queue, want 2: one is that of the default exchange", len(all))
		}
		h.done(h.DeleteBinding(p.vhost, found[0]))
		if left := got[[]rabbithole.BindingInfo](h)(h.ListQueueBindingsBetween(p.vhost, "events", "orders/1")); len(left) != 0 {
			t.Errorf("the bindings after a delete are %+v, want none", left)
		}
		h.done(h.PurgeQueue(p.vhost, "orders/1"))
		h.done(h.DeleteQueue(p.vhost, "large"))
		h.done(h.DeleteQueue(p.vhost, "orders/1", rabbithole.QueueDeleteOptions{IfEmpty: true, IfUnused: true}))
		h.done(h.DeleteExchange(p.vhost, "all"))
		if _, err := h.GetQueue(p.vhost, "large"); err == nil {
			t.Error("a queue that was deleted is found")
		}
	})
}

func TestRabbitHoleUsersAndPolicies(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		h := newHole(t, p)
		name := "u" + rand.Text()
		h.done(h.PutUser(name, rabbithole.UserSettings{Password: "secret", Tags: rabbithole.UserTags{"policymaker", "management"}}))
		t.Cleanup(func() { h.done(h.DeleteUser(name)) })
		h.done(h.UpdatePermissionsIn(p.vhost, name, rabbithole.Permissions{Configure: "^a", Write: ".*", Read: ""}))
		if u := got[*rabbithole.UserInfo](h)(h.GetUser(name)); !slices.Equal(u.Tags, rabbithole.UserTags{"policymaker", "management"}) || u.PasswordHash == "" {
			t.Errorf("the user is %+v", u)
		}
		if permission := got[rabbithole.PermissionInfo](h)(h.GetPermissionsIn(p.vhost, name)); permission.Configure != "^a" || permission.User != name || permission.Vhost != p.vhost {
			t.Errorf("the permission is %+v", permission)
		}
		if all := got[[]rabbithole.PermissionInfo](h)(h.ListPermissionsOf(name)); len(all) != 1 {
			t.Errorf("%d permissions of the user, want 1", len(all))
		}
		h.done(h.PutUserWithoutPassword(name, rabbithole.UserSettings{Tags: rabbithole.UserTags{"monitoring"}}))
		if _, err := p.dial(name, "secret", p.vhost); err == nil {
			t.Error("a user without a password logs in")
		}
		if who := got[*rabbithole.WhoamiInfo](h)(h.Whoami()); who.Name != "guest" || !slices.Contains(who.Tags, "administrator") {
			t.Errorf("whoami: %+v", who)
		}
		policy := rabbithole.Policy{Pattern: "^q", ApplyTo: "queues", Priority: 3, Definition: rabbithole.PolicyDefinition{"max-length": 5}}
		h.done(h.PutPolicy(p.vhost, "short", policy))
		if q := got[*rabbithole.Policy](h)(h.GetPolicy(p.vhost, "short")); q.Pattern != "^q" || q.ApplyTo != "queues" || q.Priority != 3 || q.Definition["max-length"] != 5.0 {
			t.Errorf("the policy is %+v", q)
		}
		if _, err := h.PutPolicy(p.vhost, "odd", rabbithole.Policy{Pattern: "(", Definition: rabbithole.PolicyDefinition{"max-length": "x"}}); err == nil {
			t.Error("a policy that makes no sense is taken")
		}
		h.done(h.DeclareQueue(p.vhost, "q", rabbithole.QueueSettings{Durable: true}))
		lab.Eventually(t, settle, "the queue has its policy", func() bool {
			return got[*rabbithole.DetailedQueueInfo](h)(h.GetQueue(p.vhost, "q")).Policy == "short"
		})
		definitions := got[*rabbithole.ExportedDefinitions](h)(h.ListVhostDefinitions(p.vhost))
		if len(*definitions.Queues) != 1 || len(*definitions.Policies) != 1 {
			t.Errorf("the definitions are %+v, want one queue and one policy", definitions)
		}
		h.done(h.DeletePolicy(p.vhost, "short"))
		h.done(h.ClearPermissionsIn(p.vhost, name))
		if _, err := h.GetPermissionsIn(p.vhost, name); err == nil {
			t.Error("a permission that was cleared is found")
		}
		vhost := "v" + rand.Text()
		h.done(h.PutVhost(vhost, rabbithole.VhostSettings{}))
		if v := got[*rabbithole.VhostInfo](h)(h.GetVhost(vhost)); v.Name != vhost {
			t.Errorf("the virtual host is %+v", v)
		}
		h.done(h.DeleteVhost(vhost))
		all := got[*rabbithole.ExportedDefinitions](h)(h.ListDefinitions())
		some := &rabbithole.ExportedDefinitions{Queues: &[]rabbithole.QueueInfo{{Name: "imported", Vhost: p.vhost, Durable: true, Arguments: map[string]any{}}},
			Exchanges: &[]rabbithole.ExchangeInfo{}, Bindings: &[]rabbithole.BindingInfo{}, Policies: &[]rabbithole.PolicyDefinition{}}
		if len(*all.Users) < 2 || len(*all.Vhosts) < 2 {
			t.Errorf("the export has %d users and %d virtual hosts, want at least 2", len(*all.Users), len(*all.Vhosts))
		}
		h.done(h.UploadDefinitions(some))
		if q := got[*rabbithole.DetailedQueueInfo](h)(h.GetQueue(p.vhost, "imported")); !q.Durable {
			t.Errorf("the imported queue is %+v", q)
		}
	})
}

func TestRabbitHoleWatchesConnections(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		h := newHole(t, p)
		ch := p.channel()
		if _, err := ch.QueueDeclare("q", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		if err := ch.Qos(3, 0, false); err != nil {
			t.Fatal(err)
		}
		if _, err := ch.Consume("q", "tag", false, false, false, false, amqp.Table{"x-priority": int32(2)}); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := ch.Publish("", "q", false, false, amqp.Publishing{Body: []byte("12345"), DeliveryMode: 2}); err != nil {
				t.Fatal(err)
			}
		}
		lab.Eventually(t, settle, "the queue has 2 messages ready and 3 with the consumer", func() bool {
			q, err := h.GetQueue(p.vhost, "q") // RabbitMQ's answer is not whole at first
			return err == nil && q.MessagesReady == 2 && q.MessagesUnacknowledged == 3 && q.Messages == 5 && q.MessagesBytes == 25 && q.Consumers == 1 &&
				q.ConsumerDetails != nil && len(*q.ConsumerDetails) == 1 && q.MessageStats != nil && q.MessageStats.Publish == 5
		})
		var connection rabbithole.ConnectionInfo
		lab.Eventually(t, settle, "the connection is listed", func() bool {
			all := got[[]rabbithole.ConnectionInfo](h)(h.ListVhostConnections(p.vhost))
			if len(all) == 1 {
				connection = all[0]
			}
			return len(all) == 1 && all[0].Channels == 1
		})
		if connection.User != "guest" || connection.Vhost != p.vhost || connection.Protocol != "AMQP 0-9-1" || connection.State != "running" || connection.ConnectedAt == 0 {
			t.Errorf("the connection is %+v", connection)
		}
		lab.Eventually(t, settle, "the channel is described", func() bool {
			all, err := h.ListChannels()
			if err != nil { // RabbitMQ has an empty list in place of a connection that has just gone
				t.Logf("not yet: %v", err)
				return false
			}
			at := slices.IndexFunc(all, func(c rabbithole.ChannelInfo) bool { return c.Vhost == p.vhost })
			return at >= 0 && all[at].UsesPublisherConfirms && all[at].PrefetchCount == 3 && all[at].ConsumerCount == 1 && all[at].UnacknowledgedMessageCount == 3
		})
		consumers := got[[]rabbithole.ConsumerInfo](h)(h.ListConsumersIn(p.vhost))
		if len(consumers) != 1 || consumers[0].ConsumerTag != "tag" || consumers[0].PrefetchCount != 3 || consumers[0].Queue.Name != "q" || consumers[0].Arguments["x-priority"] != 2.0 {
			t.Errorf("the consumers are %+v", consumers)
		}
		closed := make(chan *amqp.Error, 1)
		ch.NotifyClose(closed)
		h.done(h.CloseConnection(connection.Name))
		if err := <-closed; err == nil || err.Code != 320 {
			t.Errorf("the client is told %v, want 320", err)
		}
	})
}

func TestRabbitHoleHealth(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		h := newHole(t, p)
		for name, check := range map[string]func() (bool, error){
			"alarms":       func() (bool, error) { r, err := h.HealthCheckAlarms(); return r.Ok(), err },
			"local alarms": func() (bool, error) { r, err := h.HealthCheckLocalAlarms(); return r.Ok(), err },
			"vhosts":       func() (bool, error) { r, err := h.HealthCheckVirtualHosts(); return r.Ok(), err },
			"quorum":       func() (bool, error) { r, err := h.HealthCheckNodeIsQuorumCritical(); return r.Ok(), err },
			"mirrors":      func() (bool, error) { return mirrorsAreHealthy(h) },
			"certificates": func() (bool, error) {
				r, err := h.HealthCheckCertificateExpiration(1, rabbithole.DAYS)
				return r.Ok(), err
			},
			"port": func() (bool, error) {
				port, err := strconv.ParseUint(p.api.Port(), 10, 16)
				if err != nil {
					return false, err
				}
				r, err := h.HealthCheckPortListener(uint(port))
				return r.Ok(), err
			},
			"protocol":       func() (bool, error) { r, err := h.HealthCheckProtocolListener(rabbithole.HTTP); return r.Ok(), err },
			"other port":     func() (bool, error) { r, err := h.HealthCheckPortListener(1); return !r.Ok() && r.Missing == 1, err },
			"other protocol": func() (bool, error) { return lacksMQTT(p, h) },
		} {
			if ok, err := check(); err != nil || !ok {
				t.Errorf("%s: got %v, %v, want ok", name, ok, err)
			}
		}
		overview := got[*rabbithole.Overview](h)(h.Overview())
		if overview.RabbitMQVersion == "" || overview.Node == "" || len(overview.ExchangeTypes) < 4 {
			t.Errorf("the overview is %+v", overview)
		}
		nodes := got[[]rabbithole.NodeInfo](h)(h.ListNodes())
		if len(nodes) != 1 || nodes[0].Name != overview.Node || !nodes[0].IsRunning || nodes[0].Uptime == 0 && nodes[0].Processors == 0 {
			t.Errorf("the nodes are %+v", nodes)
		}
		if name := got[*rabbithole.ClusterName](h)(h.GetClusterName()); name.Name == "" {
			t.Error("the cluster has no name")
		}
	})
}

// mirrorsAreHealthy reports whether the check for mirrored queues succeeds, or is not there where mirrors are not.
func mirrorsAreHealthy(h *hole) (bool, error) {
	r, err := h.HealthCheckNodeIsMirrorSyncCritical()
	if answer := (rabbithole.ErrorResponse{}); lab.Release() >= broker.RabbitMQ40 && errors.As(err, &answer) {
		return answer.StatusCode == http.StatusNotFound, nil
	}
	return r.Ok() && lab.Release() < broker.RabbitMQ40, err
}

// lacksMQTT reports whether the broker reports that it does not speak MQTT. RabbitMQ 4.3 lists what is missing, which the client cannot read.
func lacksMQTT(p *place, h *hole) (bool, error) {
	if lab.Release() < broker.RabbitMQ43 {
		r, err := h.HealthCheckProtocolListener(rabbithole.MQTT)
		return !r.Ok() && r.Missing == "mqtt", err
	}
	var answer struct{ Missing []string }
	status, content := p.request("guest", "guest", "GET", "/api/health/checks/protocol-listener/mqtt,http", "")
	err := json.Unmarshal([]byte(content), &answer)
	return status == http.StatusServiceUnavailable && slices.Equal(answer.Missing, []string{"mqtt"}), err
}
