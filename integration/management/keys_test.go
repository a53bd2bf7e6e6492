package management

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/lab"
)

// left is what the embedded broker does not show, by the end of the key's path, and why.
var left = map[string][]string{
	"Erlang and its processes": {"garbage_collection", "reductions", "reductions_details", "backing_queue_status", "memory", "pending_raft_commands", "open_files",
		"recoverable_slaves", "statistics_db_event_queue", "release_series_support_status", "sample_retention_policies", "cached_segments"},
	"not counted": {"idle_since", "head_message_timestamp", "get_empty", "get_empty_details", "disk_reads", "disk_reads_details", "disk_writes", "disk_writes_details", "recv_oct",
		"recv_oct_details", "send_oct", "send_oct_details", "send_cnt", "send_pend", "publish_in", "publish_in_details", "publish_out", "publish_out_details", "publishers"},
	"where messages are": {"messages_ram", "messages_ready_ram", "messages_unacknowledged_ram", "messages_persistent", "messages_paged_out", "message_bytes_ram",
		"message_bytes_persistent", "message_bytes_paged_out"},
	"of exchanges, channels and virtual hosts no rates": {"message_stats", "user_who_performed_action"},
	"by the names of nodes":                             {"cluster_state"},
	"the listener's options":                            {"socket_opts", "ssl_opts", "cowboy_opts", "protocol"},
}

// kinds returns which JSON type each key of an answer has; elements of lists are one.
func kinds(t *testing.T, content string) map[string]string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(content), &value); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
	all := map[string]string{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			all[path] = "object"
			for key, inner := range v {
				walk(path+"."+key, inner)
			}
		case []any:
			all[path] = "list"
			for _, inner := range v {
				walk(path+"[]", inner)
			}
		case nil:
			if all[path] == "" {
				all[path] = "null"
			}
		default:
			all[path] = fmt.Sprintf("%T", v)
		}
	}
	walk("", value)
	return all
}

func isLeft(path string) bool {
	for _, keys := range left {
		if slices.ContainsFunc(strings.Split(path, "."), func(key string) bool { return slices.Contains(keys, strings.TrimSuffix(key, "[]")) }) {
			return true
		}
	}
	return false
}

// TestAnswersHaveTheSameKeys compares the answers for a small topology, key by key.
func TestAnswersHaveTheSameKeys(t *testing.T) {
	answers := map[string]map[string]string{}
	for name, open := range map[string]func(testing.TB) *place{"rabbitmq": rabbitMQ, "embedded": embedded} {
		p := open(t)
		topology(p)
		answers[name] = map[string]string{}
		for key, path := range map[string]string{
			"queues": "queues/{vhost}", "queue": "queues/{vhost}/q", "quorum queue": "queues/{vhost}/large", "page": "queues/{vhost}?page=1&page_size=1&columns=name",
			"exchanges": "exchanges/{vhost}", "exchange": "exchanges/{vhost}/x", "bindings": "bindings/{vhost}", "policies": "policies/{vhost}",
			"policy": "policies/{vhost}/p", "consumers": "consumers/{vhost}", "connections": "vhosts/{vhost}/connections", "channels": "vhosts/{vhost}/channels",
			"definitions": "definitions/{vhost}", "permissions": "vhosts/{vhost}/permissions", "vhost": "vhosts/{vhost}", "whoami": "whoami", "user": "users/guest",
			"overview": "overview", "cluster": "cluster-name", "aliveness": "aliveness-test/{vhost}", "alarms": "health/checks/alarms",
		} {
			answers[name][key] = p.must("GET", "/api/"+strings.ReplaceAll(path, "{vhost}", p.vhost), "")
		}
	}
	for key, content := range answers["rabbitmq"] {
		theirs, ours := kinds(t, content), kinds(t, answers["embedded"][key])
		for _, path := range slices.Sorted(maps.Keys(theirs)) {
			kind, there := ours[path]
			switch {
			case isLeft(path):
			case !there:
				t.Errorf("%s: %s is missing, RabbitMQ has it as %s", key, path, theirs[path])
			case kind != theirs[path] && kind != "null" && theirs[path] != "null":
				t.Errorf("%s: %s is %s, RabbitMQ has it as %s", key, path, kind, theirs[path])
			}
		}
		for _, path := range slices.Sorted(maps.Keys(ours)) {
			if _, there := theirs[path]; !there && !isLeft(path) {
				t.Errorf("%s: %s is not in RabbitMQ's answer", key, path)
			}
		}
	}
}

// topology makes some of everything, and waits until RabbitMQ's statistics know.
func topology(p *place) {
	p.t.Helper()
	p.must("PUT", "/api/queues/"+p.vhost+"/q", `{"durable":true,"arguments":{"x-message-ttl":600000}}`)
	p.must("PUT", "/api/queues/"+p.vhost+"/large", `{"durable":true,"arguments":{"x-queue-type":"quorum"}}`)
	p.must("PUT", "/api/exchanges/"+p.vhost+"/x", `{"type":"topic","durable":true,"arguments":{"alternate-exchange":"amq.fanout"}}`)
	p.must("POST", "/api/bindings/"+p.vhost+"/e/x/q/q", `{"routing_key":"a.*","arguments":{"n":1}}`)
	p.must("PUT", "/api/policies/"+p.vhost+"/p", `{"pattern":"^q","definition":{"max-length":100},"apply-to":"queues","priority":1}`)
	ch := p.channel()
	if err := ch.Qos(1, 0, false); err != nil {
		p.t.Fatal(err)
	}
	if _, err := ch.Consume("q", "tag", false, false, false, false, amqp.Table{"x-priority": int32(3)}); err != nil {
		p.t.Fatal(err)
	}
	for _, key := range []string{"q", "q", "large"} {
		if err := ch.Publish("", key, false, false, amqp.Publishing{Body: []byte("x"), DeliveryMode: 2}); err != nil {
			p.t.Fatal(err)
		}
	}
	lab.Eventually(p.t, settle, "the statistics know everything", func() bool {
		queue := p.must("GET", "/api/queues/"+p.vhost+"/q", "")
		large := p.must("GET", "/api/queues/"+p.vhost+"/large", "")
		return strings.Contains(queue, `"messages":2`) && strings.Contains(queue, `"publish":2`) && strings.Contains(queue, `"policy":"p"`) && strings.Contains(large, `"messages":1`) && strings.Contains(large, `"state":`) &&
			strings.Contains(large, `"publish":1`) && strings.Contains(p.must("GET", "/api/vhosts/"+p.vhost+"/connections", ""), "auth_mechanism") &&
			strings.Contains(p.must("GET", "/api/vhosts/"+p.vhost+"/channels", ""), `"prefetch_count":1`) &&
			strings.Contains(p.must("GET", "/api/vhosts/"+p.vhost, ""), `"publish":3`)
	})
}
