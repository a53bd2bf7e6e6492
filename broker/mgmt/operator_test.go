package mgmt

import (
	"fmt"
	"strings"
	"testing"
)

func TestOperatorPolicies(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/queues/%2F/q", `{"durable":true}`)
	d.must(201, "PUT", "/api/policies/%2F/p", `{"pattern":"","definition":{"max-length":10,"overflow":"reject-publish"}}`)
	d.must(201, "PUT", "/api/operator-policies/%2F/p", `{"pattern":"^q","definition":{"max-length":5},"priority":3,"apply-to":"queues"}`)
	d.must(400, "PUT", "/api/operator-policies/%2F/bad", `{"pattern":"","definition":{"dead-letter-exchange":"x"}}`)
	want := `{"apply-to":"queues","definition":{"max-length":5},"name":"p","pattern":"^q","priority":3,"vhost":"/"}`
	if got := d.must(200, "GET", "/api/operator-policies/%2F/p", "").body; got != want {
		t.Errorf("one: got %s, want %s", got, want)
	}
	for _, path := range []string{"/api/operator-policies", "/api/operator-policies/%2F"} {
		if got := d.must(200, "GET", path, "").body; got != "["+want+"]" {
			t.Errorf("%s: got %s, want [%s]", path, got, want)
		}
	}
	var q map[string]any
	d.read("/api/queues/%2F/q", &q)
	if got, want := fmt.Sprint(q["policy"], q["operator_policy"], q["effective_policy_definition"]), "ppmap[max-length:5 overflow:reject-publish]"; got != want {
		t.Errorf("queue: got %s, want %s", got, want)
	}

	exported := d.must(200, "GET", "/api/definitions", "").body
	parameter := `"parameters":[{"component":"operator_policy","name":"p","value":{"apply-to":"queues","definition":{"max-length":5},"pattern":"^q","priority":3},"vhost":"/"}]`
	if !strings.Contains(exported, parameter) {
		t.Errorf("export: got %s, want it to have %s", exported, parameter)
	}
	d.must(204, "DELETE", "/api/operator-policies/%2F/p", "")
	d.must(404, "DELETE", "/api/operator-policies/%2F/p", "")
	d.must(404, "GET", "/api/operator-policies/%2F/p", "")
	if got := d.node.Vhost("/").Queue("q").Status().Settings.MaxLength; got != 10 {
		t.Errorf("without the operator's policy: got room for %d messages, want 10", got)
	}
	d.must(204, "POST", "/api/definitions", exported)
	if got := d.node.Vhost("/").Queue("q").Status().Settings.MaxLength; got != 5 {
		t.Errorf("after the import: got room for %d messages, want 5", got)
	}
	refused := d.must(400, "POST", "/api/definitions", `{"parameters":[{"component":"shovel","name":"s","vhost":"/","value":{}}]}`).body
	if !strings.Contains(refused, `component shovel not found`) {
		t.Errorf("a shovel: got %s, want its component refused", refused)
	}
}

func TestPublishersAreCounted(t *testing.T) {
	d := newTestAPI(t)
	d.must(201, "PUT", "/api/queues/%2F/q", `{"durable":true}`)
	d.must(200, "POST", "/api/exchanges/%2F//publish", `{"routing_key":"q","payload":"x","payload_encoding":"string","properties":{}}`)
	d.must(200, "POST", "/api/exchanges/%2F//publish", `{"routing_key":"none","payload":"x","payload_encoding":"string","properties":{}}`)
	d.must(200, "POST", "/api/exchanges/%2F/amq.fanout/publish", `{"routing_key":"","payload":"x","payload_encoding":"string","properties":{}}`)
	for range 2 {
		d.must(200, "POST", "/api/queues/%2F/q/get", `{"count":1,"ackmode":"ack_requeue_false","encoding":"auto"}`)
	}
	var answer struct {
		Stats map[string]any `json:"message_stats"`
	}
	for path, want := range map[string]map[string]float64{
		"/api/overview":     {"publish": 3, "confirm": 3, "return_unroutable": 2, "get_no_ack": 1, "get_empty": 1},
		"/api/vhosts/%2F":   {"publish": 3, "confirm": 3, "return_unroutable": 2, "get_no_ack": 1, "get_empty": 1},
		"/api/queues/%2F/q": {"publish": 1, "get_no_ack": 1, "get_empty": 1},
	} {
		answer.Stats = nil
		d.read(path, &answer)
		for key, n := range want {
			if answer.Stats[key] != n {
				t.Errorf("%s: got %s %v, want %v", path, key, answer.Stats[key], n)
			}
		}
	}
}
