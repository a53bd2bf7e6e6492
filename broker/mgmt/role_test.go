package mgmt

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/node"
)

// callers of the matrix. All with a name have access to the virtual host "own".
var callers = []struct {
	name, password string
	tags           []string
}{
	{"", "", nil},
	{"admin", "wrong", nil},
	{"nobody", "secret", nil},
	{"untagged", "secret", nil},
	{"stranger", "secret", []string{"impersonator"}},
	{"manager", "secret", []string{"management"}},
	{"monitor", "secret", []string{"monitoring"}},
	{"maker", "secret", []string{"policymaker"}},
	{"admin", "secret", []string{"administrator"}},
}

// wanted is whether a user with tags may use a route, in the own virtual host or another.
func wanted(needs role, tags []string, own bool) bool {
	is := func(some ...string) bool {
		return slices.ContainsFunc(some, func(tag string) bool { return slices.Contains(tags, tag) })
	}
	if !is("management", "policymaker", "monitoring", "administrator") {
		return false
	}
	switch needs {
	case anyUser:
		return true
	case vhostUser:
		return own || is("administrator")
	case vhostUserOrMonitor:
		return own || is("monitoring", "administrator")
	case policymaker:
		return is("administrator") || own && is("policymaker")
	case monitor, monitorOrSelf: // no test requests its own user
		return is("monitoring", "administrator")
	case administrator:
		return is("administrator")
	}
	return false
}

func TestEveryRouteAsksForItsRole(t *testing.T) {
	d := newTestAPI(t)
	for _, rt := range routes(node.Compat(broker.DefaultCompat)) {
		method, pattern, _ := strings.Cut(rt.pattern, " ")
		for _, vhost := range []string{"own", "other"} {
			path := strings.NewReplacer("{vhost}", vhost, "{kind}", "q", "{protocol}", "http", "{", "", "}", "").Replace(pattern)
			for _, caller := range callers {
				d.people(t)
				got := d.as(caller.name, caller.password, method, path, "{}")
				// What AMQP refuses is refused later, with this text.
				allowed := got.status != http.StatusUnauthorized || got.reason() == "Access refused."
				want := wanted(rt.needs, caller.tags, vhost == "own" || !strings.Contains(pattern, "{vhost}"))
				if allowed != want {
					t.Errorf("%s %s as %q with tags %q: got %d %s, want it allowed: %v", method, path, caller.name, caller.tags, got.status, got.body, want)
				}
				if got.status >= 500 {
					t.Errorf("%s %s as %q: got %d %s", method, path, caller.name, got.status, got.body)
				}
			}
		}
	}
}

// people creates the virtual hosts and users of the matrix, which a request may have deleted.
func (d *testAPI) people(t *testing.T) {
	t.Helper()
	for _, v := range []string{"own", "other"} {
		if err := d.node.AddVhost(v); err != nil {
			t.Fatal(err)
		}
	}
	for _, caller := range callers {
		if caller.password != "secret" || caller.name == "nobody" {
			continue
		}
		_, err := d.node.EditUser(caller.name, true, func(u *node.User) {
			u.Tags, u.Password, u.Permissions = caller.tags, caller.password, map[string]node.Permission{"own": node.Everything()}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestARouteWithoutARoleLetsNobodyIn(t *testing.T) {
	d := newTestAPI(t)
	c := &call{api: newAPI(d.server, d.node), user: &node.User{Tags: []string{"administrator"}}}
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
	c := &call{api: newAPI(d.server, d.node), user: d.node.User("admin"), password: "secret", vhost: d.node.Vhost("own")}
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
