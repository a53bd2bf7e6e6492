package management

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/lab"
)

// script is rabbitmqadmin, which only RabbitMQ itself hands out.
func script(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		lab.Lack(t, "rabbitmqadmin needs python3, run scripts/services up clients: %v", err)
	}
	p := rabbitMQ(t)
	if lab.Release() >= broker.RabbitMQ43 {
		if status, _ := p.request("guest", "guest", "GET", "/cli/rabbitmqadmin", ""); status != http.StatusNotFound {
			t.Errorf("got %d for rabbitmqadmin, want 404: if this release has it, the test should run", status)
		}
		t.Skip("RabbitMQ 4.3 does not come with rabbitmqadmin; the runs on 4.0 and 3.10 use it")
	}
	content := p.must("GET", "/cli/rabbitmqadmin", "")
	path := filepath.Join(t.TempDir(), "rabbitmqadmin")
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRabbitmqadmin(t *testing.T) {
	path := script(t)
	each(t, func(t *testing.T, p *place) {
		run := func(args ...string) string {
			t.Helper()
			all := append([]string{path, "--host=" + p.api.Hostname(), "--port=" + p.api.Port(), "--username=guest", "--password=guest", "--vhost=" + p.vhost}, args...)
			out, err := exec.CommandContext(t.Context(), "python3", all...).CombinedOutput()
			if err != nil {
				t.Fatalf("rabbitmqadmin %s: %v\n%s", strings.Join(args, " "), err, out)
			}
			return strings.TrimSpace(string(out))
		}
		expect := func(want string, args ...string) {
			t.Helper()
			if got := run(args...); got != want {
				t.Errorf("rabbitmqadmin %s: got\n%s\nwant\n%s", strings.Join(args, " "), got, want)
			}
		}
		expect("queue declared", "declare", "queue", "name=orders/1", `arguments={"x-message-ttl":600000}`)
		expect("queue declared", "declare", "queue", "name=large", "queue_type=quorum")
		expect("exchange declared", "declare", "exchange", "name=events", "type=topic")
		expect("binding declared", "declare", "binding", "source=events", "destination=orders/1", "routing_key=order.*")
		expect("policy declared", "declare", "policy", "name=short", "pattern=^orders", `definition={"max-length":100}`, "apply-to=queues", "priority=2")
		expect("Message published", "publish", "exchange=events", "routing_key=order.new", "payload=hello", `properties={"delivery_mode":2,"headers":{"n":1}}`)
		expect("Message published but NOT routed", "publish", "exchange=events", "routing_key=nothing", "payload=hello")
		expect("Message published", "publish", "routing_key=large", "payload=to the default exchange")

		var messages []struct {
			Payload    string
			Properties struct{ Headers map[string]any }
			Routing    string `json:"routing_key"`
		}
		if err := json.Unmarshal([]byte(run("--format=raw_json", "get", "queue=orders/1", "count=10", "ackmode=ack_requeue_true")), &messages); err != nil {
			t.Fatal(err)
		}
		if len(messages) != 1 || messages[0].Payload != "hello" || messages[0].Routing != "order.new" || messages[0].Properties.Headers["n"] != 1.0 {
			t.Errorf("got the messages %+v, want hello", messages)
		}
		expect("queue purged", "purge", "queue", "name=orders/1")
		if got := run("--format=raw_json", "get", "queue=orders/1"); got != "[]" {
			t.Errorf("a queue that was purged has %s", got)
		}
		expect("name=\"large\" type=\"quorum\"\nname=\"orders/1\" type=\"classic\"", "--format=kvp", "list", "queues", "name", "type")
		if got := run("--format=kvp", "list", "bindings", "source", "destination", "routing_key"); !strings.Contains(got, `source="events" destination="orders/1" routing_key="order.*"`) {
			t.Errorf("the bindings are %s", got)
		}
		for _, what := range []string{"exchanges", "users", "permissions", "nodes", "connections"} {
			run("list", what)
		}
		if got := run("show", "overview"); !strings.Contains(got, "rabbitmq_version") {
			t.Errorf("the overview is %s", got)
		}
		file := filepath.Join(t.TempDir(), "definitions.json")
		expect(`Exported definitions for `+p.api.Hostname()+` to "`+file+`"`, "export", file)
		expect("queue deleted", "delete", "queue", "name=orders/1")
		expect("exchange deleted", "delete", "exchange", "name=events")
		run("import", file)
		if got := run("--format=kvp", "list", "queues", "name"); !strings.Contains(got, `name="orders/1"`) {
			t.Errorf("the queues after an import are %s, want orders/1 again", got)
		}
		if got := run("--format=kvp", "list", "bindings", "source", "destination", "properties_key"); !strings.Contains(got, `source="events" destination="orders/1" properties_key="order.%2A"`) {
			t.Errorf("the bindings after an import are %s", got)
		}
		expect("binding deleted", "delete", "binding", "source=events", "destination_type=queue", "destination=orders/1", "properties_key=order.%2A")
	})
}
