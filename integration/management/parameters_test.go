package management

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/lab"
)

// TestParameters makes the same requests of both: limits, topic permissions, parameters, and properties of virtual hosts.
func TestParameters(t *testing.T) {
	const whatever = "*"
	each(t, func(t *testing.T, p *place) {
		user := "user-of-" + p.vhost
		p.must("PUT", "/api/users/"+user, `{"password":"secret","tags":""}`)
		t.Cleanup(func() { p.request("guest", "guest", "DELETE", "/api/users/"+user, "") })
		p.must("PUT", "/api/permissions/"+p.vhost+"/guest", `{"configure":".*","write":".*","read":".*"}`)
		described := `{"description":"a shop","tags":["x","y"],"metadata":{"description":"a shop","tags":["x","y"]},"default_queue_type":"undefined"}`
		if lab.Release() >= broker.RabbitMQ40 { // where each virtual host has a default queue type
			described = `{"description":"a shop","tags":["x","y"],"metadata":{"description":"a shop","tags":["x","y"],"default_queue_type":"classic"},"default_queue_type":"classic"}`
		}
		forMissing := http.StatusNoContent
		if lab.Release() >= broker.RabbitMQ43 { // where permissions are for exchanges that exist
			forMissing = http.StatusBadRequest
		}
		for i, c := range []struct {
			method, path, body string
			status             int
			want               string // JSON, or what is in an error
		}{
			{"PUT", "/api/vhosts/{v}", `{"description":"a shop","tags":"x,y"}`, 204, ""},
			{"GET", "/api/vhosts/{v}?columns=description,tags,metadata,default_queue_type", "", 200, described},
			{"PUT", "/api/vhosts/{v}", `{"description":"other","tags":["y z"]}`, 204, ""},
			{"GET", "/api/vhosts/{v}?columns=description,tags", "", 200, `{"description":"other","tags":["y z"]}`},
			{"PUT", "/api/vhosts/{v}", `{}`, 204, ""},
			{"GET", "/api/vhosts/{v}?columns=description,tags", "", 200, `{"description":"","tags":[]}`},

			{"GET", "/api/vhost-limits/{v}", "", 200, `[]`},
			{"PUT", "/api/vhost-limits/{v}/max-queues", `{"value":2}`, 204, ""},
			{"PUT", "/api/vhost-limits/{v}/max-connections", `{"value":100}`, 204, ""},
			{"GET", "/api/vhost-limits/{v}", "", 200, `[{"vhost":"{v}","value":{"max-connections":100,"max-queues":2}}]`},
			{"GET", "/api/parameters/vhost-limits/{v}", "", 200, `[{"vhost":"{v}","component":"vhost-limits","name":"limits","value":{"max-connections":100,"max-queues":2}}]`},
			{"PUT", "/api/vhost-limits/{v}/max-channels", `{"value":1}`, 400, `Unrecognised terms [{<<"max-channels">>,1}] in limits`},
			{"PUT", "/api/vhost-limits/{v}/max-queues", `{"value":"7"}`, 400, `max-queues should be a number, actually was <<"7">>`},
			{"PUT", "/api/vhost-limits/{v}/max-queues", `{"value":1.5}`, 400, `max-queues should be a number, actually was 1.5`},
			{"PUT", "/api/vhost-limits/{v}/max-queues", `{}`, 400, `[{key_missing,value}]`},
			{"GET", "/api/vhost-limits/nowhere", "", 404, ""},
			{"PUT", "/api/queues/{v}/a", `{"durable":true}`, 201, ""},
			{"PUT", "/api/queues/{v}/b", `{"durable":true}`, 201, ""},
			{"PUT", "/api/queues/{v}/c", `{"durable":true}`, 400, `cannot declare queue 'c': queue limit in vhost '{v}' (2) is reached`},
			{"PUT", "/api/queues/{v}/a", `{"durable":true}`, 204, ""},
			{"DELETE", "/api/vhost-limits/{v}/max-nothing", "", 204, ""},
			{"DELETE", "/api/vhost-limits/{v}/max-queues", "", 204, ""},
			{"PUT", "/api/queues/{v}/c", `{"durable":true}`, 201, ""},
			{"PUT", "/api/vhost-limits/{v}/max-connections", `{"value":0}`, 204, ""},
			{"PUT", "/api/queues/{v}/d", `{"durable":true}`, 201, ""}, // the API is no client

			{"GET", "/api/user-limits/{u}", "", 200, `[]`},
			{"GET", "/api/user-limits/nobody", "", 404, ""},
			{"PUT", "/api/user-limits/{u}/max-connections", `{"value":2}`, 204, ""},
			{"PUT", "/api/user-limits/{u}/max-channels", `{"value":-1}`, 204, ""},
			{"PUT", "/api/user-limits/{u}/max-queues", `{"value":3}`, 400, `Unrecognised terms [{<<"max-queues">>,3}] in user-limits`},
			{"PUT", "/api/user-limits/{u}/max-channels", `{"value":"x"}`, 400, `max-channels should be a number, actually was <<"x">>`},
			{"PUT", "/api/user-limits/nobody/max-channels", `{"value":1}`, 400, whatever},
			{"GET", "/api/user-limits/{u}", "", 200, `[{"user":"{u}","value":{"max-channels":-1,"max-connections":2}}]`},
			{"DELETE", "/api/user-limits/{u}/max-channels", "", 204, ""},
			{"DELETE", "/api/user-limits/{u}/max-nothing", "", 204, ""},
			{"PUT", "/api/users/{u}", `{"password":"secret","tags":"","limits":{"max-channels":9}}`, 204, ""},
			{"GET", "/api/users/{u}?columns=limits", "", 200, `{"limits":{"max-channels":9,"max-connections":2}}`},

			{"GET", "/api/topic-permissions/{v}/{u}", "", 404, ""},
			{"PUT", "/api/topic-permissions/{v}/{u}", `{"exchange":"amq.topic","write":"^a","read":"^b"}`, 201, ""},
			{"PUT", "/api/topic-permissions/{v}/{u}", `{"exchange":"amq.headers","write":"^a","read":""}`, 204, ""},
			{"PUT", "/api/topic-permissions/{v}/{u}", `{"exchange":"amq.headers","write":"("}`, 400, `[{key_missing,read}]`},
			{"PUT", "/api/topic-permissions/{v}/{u}", `{"exchange":"amq.headers","write":"(","read":""}`, 400, whatever},
			{"PUT", "/api/topic-permissions/{v}/nobody", `{"exchange":"amq.headers","write":"a","read":""}`, 400, "vhost_or_user_not_found"},
			{"GET", "/api/topic-permissions/{v}/{u}", "", 200, `[{"user":"{u}","vhost":"{v}","exchange":"amq.topic","write":"^a","read":"^b"},{"user":"{u}","vhost":"{v}","exchange":"amq.headers","write":"^a","read":""}]`},
			{"GET", "/api/users/{u}/topic-permissions", "", 200, `[{"user":"{u}","vhost":"{v}","exchange":"amq.topic","write":"^a","read":"^b"},{"user":"{u}","vhost":"{v}","exchange":"amq.headers","write":"^a","read":""}]`},
			{"GET", "/api/vhosts/{v}/topic-permissions", "", 200, `[{"user":"{u}","vhost":"{v}","exchange":"amq.topic","write":"^a","read":"^b"},{"user":"{u}","vhost":"{v}","exchange":"amq.headers","write":"^a","read":""}]`},
			{"GET", "/api/topic-permissions/{v}/{u}/amq.topic", "", 200, `[{"user":"{u}","vhost":"{v}","exchange":"amq.topic","write":"^a","read":"^b"},{"user":"{u}","vhost":"{v}","exchange":"amq.headers","write":"^a","read":""}]`},
			{"PUT", "/api/topic-permissions/{v}/{u}", `{"exchange":"missing","write":"a","read":""}`, forMissing, whatever},
			{"PUT", "/api/topic-permissions/{v}/{u}/amq.fanout", `{"exchange":"amq.headers","write":"^c","read":""}`, 204, ""},
			{"DELETE", "/api/topic-permissions/{v}/{u}/missing", "", 204, ""},
			{"DELETE", "/api/topic-permissions/{v}/nobody/amq.topic", "", 404, ""},
			{"DELETE", "/api/topic-permissions/nowhere/{u}/amq.topic", "", 404, ""},
			{"DELETE", "/api/topic-permissions/{v}/{u}/amq.topic", "", 204, ""},
			{"GET", "/api/topic-permissions/{v}/{u}", "", 200, `[{"user":"{u}","vhost":"{v}","exchange":"amq.headers","write":"^c","read":""}]`},
			{"DELETE", "/api/topic-permissions/{v}/{u}/amq.topic", "", 204, ""},
			{"DELETE", "/api/topic-permissions/{v}/{u}/amq.headers", "", 204, ""},
			{"GET", "/api/topic-permissions/{v}/{u}", "", 404, ""},
			{"DELETE", "/api/topic-permissions/{v}/{u}/amq.headers", "", 404, ""},
			{"PUT", "/api/topic-permissions/{v}/{u}", `{"exchange":"amq.topic","write":"^a","read":"^b"}`, 201, ""},
			{"DELETE", "/api/topic-permissions/{v}/{u}", "", 204, ""},
			{"DELETE", "/api/topic-permissions/{v}/{u}", "", 404, ""},

			{"PUT", "/api/parameters/foo/{v}/name", `{"value":{"a":1}}`, 400, "component foo not found"},
			{"PUT", "/api/parameters/shovel/{v}/name", `{"value":{"a":1}}`, 400, "component shovel not found"},
			{"PUT", "/api/parameters/federation-upstream/{v}/name", `{"value":{"a":1}}`, 400, "component federation-upstream not found"},
			{"PUT", "/api/parameters/policy/{v}/name", `{"value":{"pattern":"x"}}`, 400, "policies may not be set using this method"},
			{"PUT", "/api/parameters/operator_policy/{v}/name", `{"value":{"pattern":"x","definition":{"max-length":1}}}`, 400, `Key "priority" not found in name`},
			{"PUT", "/api/parameters/operator_policy/{v}/name", `{"value":{"pattern":"x","definition":{"max-length":1},"priority":0,"apply-to":"queues"}}`, 201, ""},
			{"GET", "/api/parameters/operator_policy/{v}/name", "", 200, `{"value":{"apply-to":"queues","definition":{"max-length":1},"pattern":"x","priority":0},"vhost":"{v}","component":"operator_policy","name":"name"}`},
			{"GET", "/api/operator-policies/{v}", "", 200, `[{"vhost":"{v}","name":"name","pattern":"x","apply-to":"queues","definition":{"max-length":1},"priority":0}]`},
			{"DELETE", "/api/parameters/operator_policy/{v}/name", "", 204, ""},
			{"GET", "/api/operator-policies/{v}", "", 200, `[]`},
			{"PUT", "/api/parameters/vhost-limits/{v}/limits", `{"value":{"max-queues":3}}`, 204, ""},
			{"GET", "/api/vhost-limits/{v}", "", 200, `[{"vhost":"{v}","value":{"max-queues":3}}]`},
			{"PUT", "/api/parameters/vhost-limits/{v}/limits", `{"value":{"max-nonsense":3}}`, 400, `Unrecognised terms [{<<"max-nonsense">>,3}] in limits`},
			{"DELETE", "/api/parameters/vhost-limits/{v}/limits", "", 204, ""},
			{"DELETE", "/api/parameters/vhost-limits/{v}/limits", "", 404, ""},
			{"GET", "/api/parameters/vhost-limits/nowhere", "", 404, ""},

			{"PUT", "/api/global-parameters/{v}-a", `{"value":{"a":[1,null,"x"]}}`, 201, ""},
			{"PUT", "/api/global-parameters/{v}-a", `{"value":5}`, 204, ""},
			{"PUT", "/api/global-parameters/{v}-a", `{}`, 400, `[{key_missing,value}]`},
			{"GET", "/api/global-parameters/{v}-a", "", 200, `{"name":"{v}-a","value":5}`},
			{"DELETE", "/api/global-parameters/{v}-a", "", 204, ""},
			{"DELETE", "/api/global-parameters/{v}-a", "", 404, ""},
			{"PUT", "/api/cluster-name", `{}`, 400, `[{key_missing,name}]`},
			{"PUT", "/api/cluster-name", `{"name":"of a shop"}`, 204, ""},
			{"GET", "/api/cluster-name", "", 200, `{"name":"of a shop"}`},
			{"GET", "/api/global-parameters/cluster_name", "", 200, `{"name":"cluster_name","value":"of a shop"}`},
			{"GET", "/api/overview?columns=cluster_name", "", 200, `{"cluster_name":"of a shop"}`},

			{"POST", "/api/definitions/{v}", `{"parameters":[{"component":"vhost-limits","name":"limits","value":{"max-queues":6}}]}`, 204, ""},
			{"GET", "/api/vhost-limits/{v}", "", 200, `[{"vhost":"{v}","value":{"max-queues":6}}]`},
			{"POST", "/api/definitions/{v}", `{"parameters":[{"component":"shovel","name":"limits","value":{"max-queues":6}}]}`, 400, "component shovel not found"},
			{"POST", "/api/definitions", `{"topic_permissions":[{"user":"{u}","vhost":"{v}","exchange":"amq.topic","write":".*","read":"b"}]}`, 204, ""},
			{"GET", "/api/users/{u}/topic-permissions", "", 200, `[{"user":"{u}","vhost":"{v}","exchange":"amq.topic","write":".*","read":"b"}]`},
		} {
			fill := strings.NewReplacer("{v}", p.vhost, "{u}", user).Replace
			status, got := p.request("guest", "guest", c.method, fill(c.path), fill(c.body))
			what := fmt.Sprintf("%d: %s %s %s", i, c.method, c.path, c.body)
			if status != c.status {
				t.Fatalf("%s: got %d %s, want %d", what, status, got, c.status)
			}
			switch want := fill(c.want); {
			case want == "" || want == whatever:
			case status == http.StatusOK:
				if !sameJSON(t, got, want) {
					t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
				}
			default:
				var failed struct{ Reason string }
				_ = json.Unmarshal([]byte(got), &failed)
				if !strings.Contains(html.UnescapeString(failed.Reason), want) {
					t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
				}
			}
		}
	})
}

// sameJSON compares documents. What is listed has no order.
func sameJSON(t *testing.T, got, want string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{got, want} {
		if err := json.Unmarshal([]byte(text), &values[i]); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		if listed, ok := values[i].([]any); ok {
			slices.SortFunc(listed, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
