package mgmt

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/wire"
)

// restrict sets one of each setting that operators have for virtual hosts, users and the broker.
func (d *testAPI) restrict() {
	d.t.Helper()
	d.must(201, "PUT", "/api/vhosts/v", `{"description":"of the shop","tags":"a,b","default_queue_type":"quorum"}`)
	d.must(201, "PUT", "/api/users/u", `{"password":"secret","tags":"management","limits":{"max-channels":9}}`)
	d.must(204, "PUT", "/api/user-limits/u/max-connections", `{"value":2}`)
	d.must(204, "PUT", "/api/vhost-limits/v/max-queues", `{"value":3}`)
	d.must(204, "PUT", "/api/vhost-limits/v/max-connections", `{"value":7}`)
	d.must(201, "PUT", "/api/topic-permissions/v/u", `{"exchange":"amq.topic","write":"^w","read":"^r"}`)
	d.must(201, "PUT", "/api/global-parameters/tool", `{"value":{"list":[1,null,"x"]}}`)
	d.must(204, "PUT", "/api/cluster-name", `{"name":"of the shop"}`)
	d.must(201, "PUT", "/api/parameters/operator_policy/v/p", `{"value":{"pattern":"^q","definition":{"max-length":5},"priority":1,"apply-to":"queues"}}`)
}

// described is all of that as the API returns it.
func (d *testAPI) described() string {
	d.t.Helper()
	var all []string
	for _, path := range []string{"/api/vhosts/v", "/api/users/u", "/api/user-limits", "/api/vhost-limits", "/api/topic-permissions", "/api/global-parameters", "/api/cluster-name", "/api/parameters"} {
		all = append(all, path+" "+d.must(200, "GET", path, "").body)
	}
	return strings.Join(all, "\n")
}

// Settings of operators survive a restart, and are exported and imported with the definitions.
func TestRestrictionsAreKept(t *testing.T) {
	dir := t.TempDir()
	var before, definitions string
	t.Run("first", func(t *testing.T) {
		d := testAPIOf(t, &broker.Server{Logger: quiet(), Dir: dir})
		d.restrict()
		before = d.described()
		definitions = d.must(200, "GET", "/api/definitions", "").body
		for _, part := range []string{`"description":"of the shop"`, `"tags":["a","b"]`, `"default_queue_type":"quorum"`, `"max-channels":9`, `"max-connections":2`, `"max-queues":3`, `"write":"^w"`, `"list":[1,null,"x"]`,
			`{"name":"of the shop"}`, `"component":"operator_policy"`, `"component":"vhost-limits"`} {
			if !strings.Contains(before, part) {
				t.Errorf("%s is not in\n%s", part, before)
			}
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		d := testAPIOf(t, &broker.Server{Logger: quiet(), Dir: dir})
		if after := d.described(); after != before {
			t.Errorf("got\n%s\nwant\n%s", after, before)
		}
		// What was deleted stays deleted, too.
		d.must(204, "DELETE", "/api/vhost-limits/v/max-queues", "")
		d.must(204, "DELETE", "/api/user-limits/u/max-connections", "")
		d.must(204, "PUT", "/api/topic-permissions/v/u", `{"exchange":"amq.headers","write":"^other","read":""}`)
		d.must(204, "DELETE", "/api/topic-permissions/v/u/amq.topic", "")
		d.must(204, "DELETE", "/api/global-parameters/tool", "")
		d.must(204, "PUT", "/api/vhosts/v", `{"description":"other"}`)
		before = d.described()
	})
	t.Run("after another", func(t *testing.T) {
		d := testAPIOf(t, &broker.Server{Logger: quiet(), Dir: dir})
		if after := d.described(); after != before {
			t.Errorf("got\n%s\nwant\n%s", after, before)
		}
		if !strings.Contains(before, "^other") {
			t.Errorf("the permission for another exchange is not in\n%s", before)
		}
		for _, gone := range []string{"max-queues", `"max-connections":2`, "^w", "tool", "of the shop\",\"metadata"} {
			if strings.Contains(before, gone) {
				t.Errorf("%s is still in\n%s", gone, before)
			}
		}
	})
	t.Run("imported", func(t *testing.T) {
		d := newTestAPI(t)
		d.must(204, "POST", "/api/definitions", definitions)
		var want, got map[string]any
		if err := json.Unmarshal([]byte(definitions), &want); err != nil {
			t.Fatal(err)
		}
		d.read("/api/definitions", &got)
		for _, key := range []string{"users", "vhosts", "topic_permissions", "parameters", "global_parameters", "policies"} {
			if fmt.Sprint(got[key]) != fmt.Sprint(want[key]) {
				t.Errorf("%s: got %v\nwant %v", key, got[key], want[key])
			}
		}
	})
}

// The limits and permissions of a virtual host or a user are deleted with it.
func TestRestrictionsGoWithWhatTheyAreAbout(t *testing.T) {
	d := newTestAPI(t)
	d.restrict()
	d.must(204, "DELETE", "/api/vhosts/v", "")
	d.must(201, "PUT", "/api/vhosts/v", "")
	for path, want := range map[string]string{"/api/vhost-limits": "[]", "/api/topic-permissions": "[]", "/api/parameters": "[]"} {
		if got := d.must(200, "GET", path, "").body; got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if got := d.must(200, "GET", "/api/vhosts/v", "").body; !strings.Contains(got, `"description":""`) || !strings.Contains(got, `"default_queue_type":"classic"`) {
		t.Errorf("the virtual host is still described: %s", got)
	}
	d.must(204, "DELETE", "/api/users/u", "")
	if got := d.must(200, "GET", "/api/user-limits", "").body; got != "[]" {
		t.Errorf("limits of a user that is gone: got %s", got)
	}
}

// Limits do not apply to the connections of the API, which are marked in the list of connections.
func TestOwnConnections(t *testing.T) {
	d := newTestAPI(t)
	d.must(204, "PUT", "/api/vhost-limits/%2F/max-connections", `{"value":0}`)
	d.must(204, "PUT", "/api/user-limits/guest/max-connections", `{"value":0}`)
	d.must(204, "PUT", "/api/user-limits/guest/max-channels", `{"value":0}`)
	d.must(201, "PUT", "/api/queues/%2F/q", `{"durable":true}`)
	c := &call{api: d.api(), user: d.node.User("guest"), password: "guest", vhost: d.node.Vhost("/")}
	_, c.r = newRecorder("GET", "/")
	s, err := c.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	var open []map[string]any
	d.read("/api/connections", &open)
	if len(open) != 1 || open[0]["internal"] != true || open[0]["type"] != "direct" || open[0]["protocol"] != "Direct 0-9-1" {
		t.Errorf("got %v, want one that is marked as the broker's own", open)
	}
}

// The connections of the program that runs the broker are marked like those of the API, but limits apply to them. Connections by
// the network are not marked, even if this process has opened them.
func TestConnectionsOfTheProcess(t *testing.T) {
	d := newTestAPI(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.server.Serve(t.Context(), ln) }()
	open := func(dial func(ctx context.Context, network, addr string) (net.Conn, error)) (*amqpClient, error) {
		conn, err := dial(t.Context(), "tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		s := &amqpClient{conn: conn, reader: wire.NewReader(conn, 128<<10)}
		return s, s.open(t.Context(), "guest", "guest", "/")
	}
	for name, c := range map[string]struct {
		dial func(ctx context.Context, network, addr string) (net.Conn, error)
		want string
	}{
		"within the process": {d.server.Dial, "direct, Direct 0-9-1, internal true"},
		"by the network":     {new(net.Dialer).DialContext, "network, AMQP 0-9-1, internal <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := open(c.dial)
			if err != nil {
				t.Fatal(err)
			}
			var listed []map[string]any
			if d.read("/api/connections", &listed); len(listed) != 1 {
				t.Fatalf("got %v, want one connection", listed)
			}
			if got := fmt.Sprintf("%v, %v, internal %v", listed[0]["type"], listed[0]["protocol"], listed[0]["internal"]); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			s.close()
			d.must(204, "PUT", "/api/vhost-limits/%2F/max-connections", `{"value":0}`)
			defer d.must(204, "DELETE", "/api/vhost-limits/%2F/max-connections", "")
			if _, err := open(c.dial); err == nil || !strings.Contains(err.Error(), "connection limit (0) is reached") {
				t.Errorf("above the limit: got %v, want a refusal", err)
			}
		})
	}
	_ = ln.Close()
	<-ended
}

// When a request is answered, its connection is not listed any more, even after an error.
func TestOwnConnectionsAreGone(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/queues/%2F/q", `{"durable":true}`)
	for range 300 {
		d.must(200, "GET", "/api/aliveness-test/%2F", "")
		var open []map[string]any
		if d.read("/api/connections", &open); len(open) > 0 {
			t.Fatalf("after an answer: %v is listed", open)
		}
		d.must(400, "PUT", "/api/queues/%2F/q", `{"durable":false}`)
		if d.read("/api/connections", &open); len(open) > 0 {
			t.Fatalf("after an error: %v is listed", open)
		}
	}
}

// Federation and shovels are refused, and the answer has the reason.
func TestPluginsAreRefused(t *testing.T) {
	d := newTestAPI(t)
	for _, component := range []string{"federation-upstream", "federation-upstream-set", "shovel"} {
		got := d.do("PUT", "/api/parameters/"+component+"/%2F/name", `{"value":{"uri":"amqp://elsewhere"}}`)
		if got.status != 400 || !strings.Contains(got.reason(), "component "+component+" not found: this broker has no ") {
			t.Errorf("%s: got %d %s", component, got.status, got.body)
		}
	}
	if got := d.do("PUT", "/api/parameters/vhost-limits/%2F/other", `{"value":{"max-queues":1}}`); got.status != 400 {
		t.Errorf("limits of another name: got %d %s", got.status, got.body)
	}
}
