package mgmt

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

func TestMessagesThroughTheAPI(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/queues/%2F/q", `{"durable":"true","arguments":{"x-max-length":2,"x-overflow":"reject-publish"}}`)
	send := func(want int, message string) reply {
		return d.must(want, "POST", "/api/exchanges/%2F//publish", message)
	}
	full := `{"routing_key":"q","payload":"AP8=","payload_encoding":"base64","properties":{"delivery_mode":2,"priority":0,"timestamp":5,"content_type":"",
		"headers":{"a":1,"b":[1,"x",1.5,true],"c":{"d":"e"}},"unknown":1}}`
	if got := send(200, full); got.body != `{"routed":true}` {
		t.Errorf("publish: got %s", got.body)
	}
	if got := send(200, `{"routing_key":"none","payload":"x","payload_encoding":"string","properties":{}}`); got.body != `{"routed":false}` {
		t.Errorf("publish to nobody: got %s", got.body)
	}
	send(200, `{"routing_key":"q","payload":"hällo","payload_encoding":"string","properties":[]}`)
	send(400, `{"routing_key":"q","payload":"too many","payload_encoding":"string","properties":{}}`)

	get := func(mode, encoding, more string) string {
		return d.must(200, "POST", "/api/queues/%2F/q/get", fmt.Sprintf(`{"count":"5","ackmode":%q,"encoding":%q%s}`, mode, encoding, more)).body
	}
	first := `{"exchange":"","message_count":1,"payload":"AP8=","payload_bytes":2,"payload_encoding":"base64","properties":` +
		`{"content_type":"","delivery_mode":2,"headers":{"a":1,"b":[1,"x",1.5,true],"c":{"d":"e"}},"priority":0,"timestamp":5},"redelivered":%v,"routing_key":"q"}`
	second := `{"exchange":"","message_count":0,"payload":%q,"payload_bytes":6,"payload_encoding":"string","properties":[],"redelivered":%v,"routing_key":"q"}`
	for _, c := range []struct{ mode, encoding, more, want string }{
		{"ack_requeue_true", "auto", "", "[" + fmt.Sprintf(first, false) + "," + fmt.Sprintf(second, "hällo", false) + "]"},
		{"reject_requeue_true", "auto", `,"truncate":1`, "[" + strings.Replace(fmt.Sprintf(first, true), "AP8=", "\\u0000", 1) + "," + fmt.Sprintf(second, "h", true) + "]"},
	} {
		got := strings.Replace(get(c.mode, c.encoding, c.more), `"payload_encoding":"string","properties":{`, `"payload_encoding":"base64","properties":{`, 1)
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.mode, got, c.want)
		}
	}
	var taken []object
	if err := json.Unmarshal([]byte(get("ack_requeue_false", "base64", "")), &taken); err != nil || len(taken) != 2 {
		t.Errorf("taken: %v, %d messages, want 2", err, len(taken))
	}
	if got := get("ack_requeue_false", "auto", ""); got != "[]" {
		t.Errorf("from an empty queue: got %s", got)
	}
	send(200, `{"routing_key":"q","payload":"x","payload_encoding":"string","properties":{}}`)
	d.must(204, "DELETE", "/api/queues/%2F/q/contents", "")
	if ready := d.node.Vhost("/").Queue("q").Status().Ready; ready != 0 {
		t.Errorf("%d messages after a purge, want 0", ready)
	}
	d.must(400, "DELETE", "/api/queues/%2F/q?if-empty=maybe", "")
}

func TestAQueueIsDescribed(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/queues/%2F/q", `{"durable":true,"arguments":{"x-single-active-consumer":true}}`)
	d.must(201, "PUT", "/api/policies/%2F/p", `{"pattern":"^q","definition":{"max-length":10},"apply-to":"queues"}`)
	_, r := newRecorder("GET", "/")
	c := &call{api: d.api(), user: d.node.User("guest"), password: "guest", vhost: d.node.Vhost("/"), r: r}
	s, err := c.connect()
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if _, err := s.call(&wire.BasicQos{PrefetchCount: 7}); err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"first", "second"} {
		if _, err := s.call(&wire.BasicConsume{Queue: "q", ConsumerTag: tag, Arguments: wire.Table{{Key: "x-priority", Value: int32(3)}}}); err != nil {
			t.Fatal(err)
		}
	}
	var q map[string]any
	d.read("/api/queues/%2F/q", &q)
	for key, want := range map[string]any{"name": "q", "vhost": "/", "type": "classic", "durable": true, "consumers": 2.0, "policy": "p", "state": "running",
		"effective_policy_definition": map[string]any{"max-length": 10.0}, "single_active_consumer_tag": "first", "exclusive_consumer_tag": nil, "messages": 0.0,
		"consumer_capacity": 1.0, "arguments": map[string]any{"x-queue-type": "classic", "x-single-active-consumer": true}} {
		if got := q[key]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
	var consumers []struct {
		Tag      string         `json:"consumer_tag"`
		Status   string         `json:"activity_status"`
		Prefetch int            `json:"prefetch_count"`
		Channel  map[string]any `json:"channel_details"`
	}
	d.read("/api/consumers/%2F", &consumers)
	got := fmt.Sprint(consumers[0].Tag, consumers[0].Status, consumers[0].Prefetch, " ", consumers[1].Tag, consumers[1].Status)
	if want := "firstsingle_active7 secondwaiting"; got != want {
		t.Errorf("consumers: got %s, want %s", got, want)
	}
	var channels []map[string]any
	d.read("/api/channels", &channels)
	if len(channels) != 1 || channels[0]["prefetch_count"] != 7.0 || channels[0]["consumer_count"] != 2.0 || channels[0]["confirm"] != false {
		t.Errorf("channels: got %v, want one with a prefetch of 7 and 2 consumers", channels)
	}
	name := strings.ReplaceAll(channels[0]["name"].(string), " ", "%20")
	if consumers[0].Channel["name"] != channels[0]["name"] {
		t.Errorf("a consumer's channel is %v, want %v", consumers[0].Channel["name"], channels[0]["name"])
	}
	d.must(200, "GET", "/api/channels/"+name, "")
	connection := strings.TrimSuffix(name, "%20(1)")
	d.must(200, "GET", "/api/connections/"+connection+"/channels", "")
	user := consumers[0].Channel["user"].(string)
	var own []map[string]any
	if d.read("/api/connections/username/"+user, &own); len(own) != 1 {
		t.Errorf("connections of %s: got %d, want 1", user, len(own))
	}
	d.must(204, "DELETE", "/api/connections/username/nobody", "")
	d.must(204, "DELETE", "/api/connections/username/"+user, "")
	if _, err := s.next(); err == nil || !strings.Contains(err.Error(), "320 CONNECTION_FORCED - Closed via management plugin") {
		t.Errorf("a connection that was closed got %v, want 320 and the reason", err)
	}
}

func TestDefinitionsRoundTrip(t *testing.T) {
	from, to := newTestAPI(t), newTestAPI(t)
	for _, c := range [][2]string{
		{"vhosts/v%2F1", `{}`}, {"users/bob", `{"password":"secret","tags":"monitoring, management"}`},
		{"permissions/v%2F1/bob", `{"configure":"^a","write":"","read":".*"}`},
		{"queues/v%2F1/q", `{"durable":true,"arguments":{"x-message-ttl":5000,"x-queue-type":"quorum"}}`}, {"queues/%2F/passing", `{"durable":true,"auto_delete":true}`},
		{"exchanges/v%2F1/x", `{"type":"headers","durable":true,"internal":true,"arguments":{"alternate-exchange":"amq.fanout"}}`},
		{"policies/v%2F1/p", `{"pattern":"^q","definition":{"max-length":7},"priority":3,"apply-to":"queues"}`},
	} {
		from.must(201, "PUT", "/api/"+c[0], c[1])
	}
	from.must(201, "POST", "/api/bindings/v%2F1/e/x/q/q", `{"routing_key":"k","arguments":{"x-match":"any","n":1}}`)
	from.must(201, "POST", "/api/bindings/v%2F1/e/amq.topic/e/x", `{"routing_key":"#"}`)
	exported := from.must(200, "GET", "/api/definitions", "").body
	to.must(204, "POST", "/api/definitions", exported)
	to.must(204, "POST", "/api/definitions", exported) // again changes nothing
	if got := to.must(200, "GET", "/api/definitions", "").body; got != exported {
		t.Errorf("got\n%s\nwant\n%s", got, exported)
	}
	if got := to.as("bob", "secret", "GET", "/api/whoami", ""); got.status != 200 {
		t.Errorf("bob cannot log in after the import: %d %s", got.status, got.body)
	}
	one := from.must(200, "GET", "/api/definitions/v%2F1", "").body
	to.must(201, "PUT", "/api/vhosts/copy", "")
	to.must(204, "POST", "/api/definitions/copy", one)
	want := strings.ReplaceAll(one, "v/1", "copy")
	if got := to.must(200, "GET", "/api/definitions/copy", "").body; got != want {
		t.Errorf("a copy of the virtual host: got\n%s\nwant\n%s", got, want)
	}
	r, err := http.NewRequest("POST", to.http.URL+"/api/definitions", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("guest", "guest")
	if got := to.send(r); got.status != http.StatusUnsupportedMediaType {
		t.Errorf("an import without a content type: got %d, want 415", got.status)
	}
}

func TestPermissionsEverywhereCanBeTakenInOnePlace(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/vhosts/a", "")
	d.must(201, "PUT", "/api/vhosts/b", "")
	d.must(204, "DELETE", "/api/permissions/a/guest", "")
	d.must(404, "GET", "/api/permissions/a/guest", "")
	d.must(404, "DELETE", "/api/permissions/a/guest", "")
	d.must(200, "GET", "/api/permissions/b/guest", "")
	d.must(201, "PUT", "/api/permissions/a/guest", `{"configure":"","write":"","read":""}`)
	d.must(204, "PUT", "/api/permissions/a/guest", `{"configure":"x","write":"","read":""}`)
	var all []object
	d.read("/api/users/guest/permissions", &all)
	if len(all) != 3 {
		t.Errorf("guest has permissions in %d virtual hosts, want 3: %v", len(all), all)
	}
}

func TestUsersKeepTheirPermissions(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/users/bob", `{"password":"one","tags":["management"]}`)
	d.must(201, "PUT", "/api/permissions/%2F/bob", `{"configure":".*","write":".*","read":".*"}`)
	d.must(204, "PUT", "/api/users/bob", `{"password":"two","tags":"management"}`)
	d.must(200, "GET", "/api/permissions/%2F/bob", "")
	for password, want := range map[string]int{"one": 401, "two": 200, "": 401} {
		if got := d.as("bob", password, "GET", "/api/whoami", ""); got.status != want {
			t.Errorf("bob with password %q: got %d, want %d", password, got.status, want)
		}
	}
	d.must(204, "PUT", "/api/users/bob", `{"tags":"management"}`)
	if got := d.as("bob", "two", "GET", "/api/whoami", ""); got.status != 401 {
		t.Errorf("bob without a password: got %d, want 401", got.status)
	}
	d.must(201, "PUT", "/api/users/eve", `{"password":"x","tags":""}`)
	var without []struct{ Name string }
	d.read("/api/users/without-permissions", &without)
	if fmt.Sprint(without) != "[{eve}]" {
		t.Errorf("without permissions: got %v, want eve", without)
	}
	d.must(400, "POST", "/api/users/bulk-delete", `{"users":["eve","none"]}`)
	d.must(204, "POST", "/api/users/bulk-delete", `{"users":["eve","bob","eve"]}`)
	d.must(404, "GET", "/api/users/eve", "")
}

func TestPages(t *testing.T) {
	d := newTestAPI(t)
	for i := range 7 {
		d.must(201, "PUT", fmt.Sprintf("/api/queues/%%2F/q%d", i), `{"durable":true}`)
	}
	for _, c := range []struct{ query, want string }{
		{"columns=name&page=1&page_size=2", `{"filtered_count":7,"item_count":2,"items":[{"name":"q0"},{"name":"q1"}],"page":1,"page_count":4,"page_size":2,"total_count":7}`},
		{"columns=name&page=4&page_size=2", `{"filtered_count":7,"item_count":1,"items":[{"name":"q6"}],"page":4,"page_count":4,"page_size":2,"total_count":7}`},
		{"columns=name&page=1&name=Q3", `{"filtered_count":1,"item_count":1,"items":[{"name":"q3"}],"page":1,"page_count":1,"page_size":100,"total_count":7}`},
		{"columns=name&page=1&name=.&use_regex=false", `{"filtered_count":0,"item_count":0,"items":[],"page":1,"page_count":0,"page_size":100,"total_count":7}`},
		{"columns=name&page=1&name=%5EQ[12]&use_regex=true&sort=name&sort_reverse=true", `{"filtered_count":2,"item_count":2,"items":[{"name":"q2"},{"name":"q1"}],"page":1,"page_count":1,"page_size":100,"total_count":7}`},
		{"columns=messages_details.rate,durable&page=1&page_size=1", `{"filtered_count":7,"item_count":1,"items":[{"durable":true,"messages_details":{"rate":0}}],"page":1,"page_count":7,"page_size":1,"total_count":7}`},
	} {
		if got := d.must(200, "GET", "/api/queues?"+c.query, "").body; got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.query, got, c.want)
		}
	}
}

func TestHealth(t *testing.T) {
	d := newTestAPI(t)
	checks := []string{"aliveness-test/%2F", "healthchecks/node", "healthchecks/node/rehop", "health/checks/alarms", "health/checks/local-alarms", "health/checks/virtual-hosts",
		"health/checks/node-is-quorum-critical", "health/checks/certificate-expiration/1/months"}
	for _, check := range checks {
		if got := d.must(200, "GET", "/api/"+check, ""); !strings.Contains(got.body, `"status":"ok"`) {
			t.Errorf("%s: got %s, want ok", check, got.body)
		}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.server.Serve(context.WithoutCancel(t.Context()), ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// The broker answers other protocols with its header: then it serves.
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	port := strconv.Itoa(ln.Addr().(*net.TCPAddr).Port)
	d.must(200, "GET", "/api/health/checks/port-listener/"+port, "")
	d.must(503, "GET", "/api/health/checks/port-listener/1", "")
	d.must(400, "GET", "/api/health/checks/port-listener/x", "")
	d.must(200, "GET", "/api/health/checks/protocol-listener/amqp", "")
	if got, want := d.must(503, "GET", "/api/health/checks/protocol-listener/mqtt", "").body, `{"missing":["mqtt"],"protocols":["amqp","http"],"reason":"No active listener","status":"failed"}`; got != want {
		t.Errorf("a protocol that is not spoken: got %s, want %s", got, want)
	}
	_ = ln.Close()
	<-ended

	d.node.SetAlarm(node.DiskAlarm, true)
	want := `{"alarms":[{"node":"rehop","resource":"disk"}],"reason":"There are alarms in effect in the cluster","status":"failed"}`
	if got := d.must(503, "GET", "/api/health/checks/alarms", "").body; got != want {
		t.Errorf("alarms: got %s, want %s", got, want)
	}
	if got := d.must(200, "GET", "/api/healthchecks/node", "").body; !strings.Contains(got, `"failed"`) {
		t.Errorf("node with an alarm: got %s, want failed", got)
	}
	if got := d.must(200, "GET", "/metrics", "").body; !strings.Contains(got, "\nrabbitmq_alarms_free_disk_space_watermark 1\n") {
		t.Errorf("metrics with an alarm: got %s", got)
	}
}

func TestMetrics(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/queues/%2F/a%22%0A", `{"durable":true}`)
	d.must(201, "PUT", "/api/queues/%2F/b", `{"durable":true}`)
	d.must(200, "POST", "/api/exchanges/%2F/amq.default/publish", `{"routing_key":"b","payload":"12345","payload_encoding":"string","properties":{}}`)
	for path, want := range map[string][]string{
		"/metrics":            {"rabbitmq_queue_messages_ready 1", "rabbitmq_queue_messages_bytes 5", "rabbitmq_queues 2", "rabbitmq_consumers 0", "# TYPE rabbitmq_queue_messages gauge", `rabbitmq_identity_info{rabbitmq_node="rehop",rabbitmq_cluster="rehop"} 1`},
		"/metrics/per-object": {`rabbitmq_queue_messages_ready{vhost="/",queue="a\""} 0`, `rabbitmq_queue_messages_published_total{vhost="/",queue="b"} 1`},
	} {
		got := d.must(200, "GET", path, "")
		for _, line := range want {
			if !strings.Contains("\n"+got.body, "\n"+line+"\n") {
				t.Errorf("%s has no line %s in\n%s", path, line, got.body)
			}
		}
		if kind := got.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain; version=0.0.4") {
			t.Errorf("%s has the type %s", path, kind)
		}
	}
}

// Dashboards compute what is left from pairs: what the process has, and what it may have.
func TestResources(t *testing.T) {
	d := testAPIOf(t, &broker.Server{Logger: quiet(), Dir: t.TempDir(), MemoryLimit: 1 << 20})
	value := func(metric string) float64 {
		t.Helper()
		_, rest, _ := strings.Cut(d.must(200, "GET", "/metrics", "").body, "\nrabbitmq_"+metric+" ")
		text, _, _ := strings.Cut(rest, "\n")
		got, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s: %v", metric, err)
		}
		return got
	}
	pairs := [][2]string{{"process_resident_memory_bytes", "resident_memory_limit_bytes"}, {"disk_space_available_limit_bytes", "disk_space_available_bytes"}}
	if runtime.GOOS == "linux" || runtime.GOOS == "darwin" {
		pairs = append(pairs, [2]string{"process_open_fds", "process_max_fds"}, [2]string{"process_open_tcp_sockets", "process_max_tcp_sockets"})
	}
	for _, p := range pairs {
		if less, more := value(p[0]), value(p[1]); less < 0 || less >= more {
			t.Errorf("got %s %v and %s %v, want less of the first", p[0], less, p[1], more)
		}
	}
	if len(pairs) == 4 && value("process_open_fds") < 3 {
		t.Errorf("got %v open files, want at least the standard ones", value("process_open_fds"))
	}
	var nodes []map[string]any
	d.read("/api/nodes", &nodes)
	for _, key := range []string{"disk_free", "fd_used", "fd_total", "sockets_total"} {
		if n, _ := nodes[0][key].(float64); n <= 0 && (key == "disk_free" || len(pairs) == 4) {
			t.Errorf("the node has %s %v", key, nodes[0][key])
		}
	}
}

// The counts of deleted queues and virtual hosts remain.
func TestCountersOutliveWhatTheyCount(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/vhosts/v", "")
	d.must(204, "PUT", "/api/permissions/v/guest", `{"configure":".*","write":".*","read":".*"}`)
	d.must(201, "PUT", "/api/queues/v/q", `{"arguments":{"x-queue-type":"quorum"},"durable":true}`)
	for _, key := range []string{"q", "q", "nowhere"} {
		d.must(200, "POST", "/api/exchanges/v/amq.default/publish", `{"properties":{},"routing_key":"`+key+`","payload":"x","payload_encoding":"string"}`)
	}
	d.must(200, "POST", "/api/queues/v/q/get", `{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`)
	want := []string{`rabbitmq_global_messages_routed_total{protocol="amqp091"} 2`, `rabbitmq_global_messages_received_total{protocol="amqp091"} 3`,
		`rabbitmq_global_messages_delivered_total{protocol="amqp091",queue_type="rabbit_quorum_queue"} 1`, "rabbitmq_queues_created_total 1"}
	check := func(when string, want ...string) {
		t.Helper()
		got := d.must(200, "GET", "/metrics", "").body
		for _, line := range want {
			if !strings.Contains(got, "\n"+line+"\n") {
				t.Errorf("%s: %s is not in\n%s", when, line, got)
			}
		}
	}
	check("while all is there", append(want, "rabbitmq_queues_deleted_total 0")...)
	d.must(204, "DELETE", "/api/queues/v/q", "")
	check("without the queue", append(want, "rabbitmq_queues_deleted_total 1")...)
	if got := d.must(200, "GET", "/api/overview", "").body; !strings.Contains(got, `"queue_deleted":1,`) || !strings.Contains(got, `"deliver_get":1,`) {
		t.Errorf("overview without the queue: got %s", got)
	}
	d.must(204, "DELETE", "/api/vhosts/v", "")
	check("without the virtual host", want...)
}

func TestAServerThatCannotStart(t *testing.T) {
	if _, err := Handler(&broker.Server{FrameMax: 1}); err == nil || !strings.Contains(err.Error(), "FrameMax") {
		t.Errorf("got %v, want an error about FrameMax", err)
	}
}
