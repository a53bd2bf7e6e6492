package mgmt

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/node"
)

func TestARouteWithoutARoleLetsNobodyIn(t *testing.T) {
	d := newTestAPI(t)
	c := &call{api: d.api(), user: &node.User{Tags: []string{"administrator"}}}
	if err := c.permit(0); err == nil {
		t.Error("a route that declares no role was allowed to an administrator")
	}
}

func TestEveryPatternDeclaresARole(t *testing.T) {
	for _, rt := range routes(node.Compat(broker.DefaultCompat)) {
		if rt.needs == 0 {
			t.Errorf("%s declares no role", rt.pattern)
		}
	}
}

func TestListsShowOnlyWhatTheUserMaySee(t *testing.T) {
	d := newTestAPI(t)
	d.people(t)
	for _, vhost := range []string{"own", "other"} {
		v := d.node.Vhost(vhost)
		if _, err := v.DeclareQueue(node.QueueSpec{Name: "q-" + vhost, Durable: true}); err != nil {
			t.Fatal(err)
		}
		if err := v.PutPolicy(node.Policy{Name: "p-" + vhost, Definition: map[string]any{"max-length": 5}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"queues", "exchanges", "bindings", "policies", "consumers", "vhosts", "overview"} {
		for _, caller := range []string{"manager", "maker"} {
			got := d.as(caller, "secret", "GET", "/api/"+path, "")
			if got.status != http.StatusOK || strings.Contains(got.body, `other"`) {
				t.Errorf("GET %s as %s: got %d %s, want nothing of the virtual host other", path, caller, got.status, got.body)
			}
		}
		if got := d.as("admin", "secret", "GET", "/api/"+path, ""); path != "overview" && path != "consumers" && !strings.Contains(got.body, `other"`) {
			t.Errorf("GET %s as admin: got %s, want the virtual host other too", path, got.body)
		}
	}
}

func TestPermissionsHoldAsInAMQP(t *testing.T) {
	d := newTestAPI(t)
	d.people(t)
	_, err := d.node.EditUser("manager", false, func(u *node.User) {
		u.Permissions["own"] = node.Permission{Configure: "^mine", Write: "^mine", Read: "^mine"}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine", "yours"} {
		if _, err := d.node.Vhost("own").DeclareQueue(node.QueueSpec{Name: name, Durable: true}); err != nil {
			t.Fatal(err)
		}
	}
	message := `{"routing_key":"mine","properties":{},"payload":"x","payload_encoding":"string"}`
	get := `{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}`
	for _, c := range []struct {
		method, path, body string
		want               int
	}{
		{"PUT", "/api/queues/own/mine-too", `{"durable":true}`, 201},
		{"PUT", "/api/queues/own/yours-too", `{"durable":true}`, 401},
		{"POST", "/api/queues/own/mine/get", get, 200},
		{"POST", "/api/queues/own/yours/get", get, 401},
		{"DELETE", "/api/queues/own/yours/contents", "", 401},
		{"DELETE", "/api/queues/own/yours", "", 401},
		{"DELETE", "/api/queues/own/mine", "", 204},
		{"POST", "/api/exchanges/own/amq.default/publish", message, 400}, // RabbitMQ answers all refusals of a publish with 400
		{"POST", "/api/bindings/own/e/amq.topic/q/mine-too", "{}", 401},
		{"DELETE", "/api/exchanges/own/amq.topic", "", 401},
		{"GET", "/api/aliveness-test/own", "", 401},
	} {
		if got := d.as("manager", "secret", c.method, c.path, c.body); got.status != c.want {
			t.Errorf("%s %s: got %d %s, want %d", c.method, c.path, got.status, got.body, c.want)
		}
	}
}

func TestLoopbackUsersStayOnThisMachine(t *testing.T) {
	handler, err := Handler(&broker.Server{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := handler.(*api).server.Close(); err != nil {
			t.Error(err)
		}
	})
	for peer, want := range map[string]int{"127.0.0.1:5": 200, "[::1]:5": 200, "[::ffff:127.0.0.1]:5": 200, "192.0.2.1:5": 401, "": 401, "127.0.0.1": 401} {
		w, r := newRecorder("GET", "/api/whoami")
		r.RemoteAddr = peer
		r.Header.Set("X-Forwarded-For", "127.0.0.1")
		handler.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("guest from %q: got %d %s, want %d", peer, w.Code, w.Body, want)
		}
	}
}

func TestOthersConnectionsAreNotShown(t *testing.T) {
	d := newTestAPI(t)
	d.people(t)
	// Each request below has a connection of its own for a moment. This one stays.
	c := &call{api: d.api(), user: d.node.User("admin"), password: "secret", vhost: d.node.Vhost("own")}
	_, c.r = newRecorder("GET", "/")
	s, err := c.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	name := d.node.Connections()[0].Name
	for caller, want := range map[string]struct{ list, one, remove int }{"manager": {0, 401, 401}, "maker": {0, 401, 401}, "monitor": {1, 200, 401}} {
		path := "/api/connections/" + strings.ReplaceAll(name, " ", "%20")
		all := d.as(caller, "secret", "GET", "/api/connections", "")
		one := d.as(caller, "secret", "GET", path, "")
		remove := d.as(caller, "secret", "DELETE", path, "")
		got := fmt.Sprint(strings.Count(all.body, `"auth_mechanism"`), one.status, remove.status)
		if got != fmt.Sprint(want.list, want.one, want.remove) {
			t.Errorf("%s sees another's connection: listed, shown, closed are %s, want %v", caller, got, want)
		}
	}
}
