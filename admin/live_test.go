package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rehop/rehop/topology"
)

// api is a management API with fixed answers, by escaped path. Other paths get a status.
func api(t *testing.T, answers map[string]string) *management {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.EscapedPath()]
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	m, err := newManagement(Config{URLs: []string{"amqp://host/a%2Fb"}, Management: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What RabbitMQ 4 answers, to a user who may see neither operator policies nor virtual hosts.
func TestLive(t *testing.T) {
	t.Parallel()
	m := api(t, map[string]string{
		"/api/overview":        `{"rabbitmq_version":"4.1.2"}`,
		"/api/exchanges/a%2Fb": `[{"name":"","type":"direct","durable":true},{"name":"x/ü","type":"topic","durable":true,"auto_delete":false,"internal":true,"arguments":{"alternate-exchange":"y"}}]`,
		"/api/queues/a%2Fb":    `[{"name":"q","type":"quorum","durable":true,"arguments":{"x-queue-type":"quorum","x-message-ttl":5000},"policy":null,"messages_ready":2,"messages_unacknowledged":1,"consumers":4},{"name":"new","type":"classic","durable":true,"arguments":[]}]`,
		"/api/bindings/a%2Fb":  `[{"source":"","destination":"q","destination_type":"queue","routing_key":"q","arguments":{}},{"source":"x/ü","destination":"q","destination_type":"queue","routing_key":"k","arguments":{"n":1}}]`,
		"/api/policies/a%2Fb":  `[{"vhost":"a/b","name":"p","pattern":"^q","apply-to":"queues","definition":{"message-ttl":100},"priority":2}]`,
	})
	live, err := m.live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if live.Version != "4.1.2" || live.DefaultType != "" || live.Partial || len(live.Exchanges) != 2 || len(live.Bindings) != 1 {
		t.Errorf("got %+v", live)
	}
	q, _ := live.Queue("q")
	if ttl, _ := q.Effective("message-ttl"); q.Policy != "p" || q.Messages() != 3 || q.Consumers != 4 || ttl != int64(100) {
		t.Errorf("queue q: got %+v, TTL %v, want policy p, 3 messages, 4 consumers, TTL 100", q, ttl)
	}
	plan := topology.Plan{
		Exchanges: []topology.Exchange{{Name: "x/ü", Type: "topic", Internal: true, Args: topology.Args{"alternate-exchange": "y"}}},
		Queues:    []topology.Queue{{Name: "q", Args: topology.Args{"x-queue-type": "quorum", "x-message-ttl": int64(100)}}},
		Bindings:  []topology.Binding{{Source: "x/ü", Destination: "q", Key: "k", Args: topology.Args{"n": int64(1)}}},
	}
	diff := topology.Compare(plan, live, func(string) bool { return false })
	if len(diff) != 1 || diff[0].Argument != "x-message-ttl" {
		t.Errorf("got %v, want x-message-ttl alone", diff)
	}
}

func TestLiveTakesTheDefaultOfTheVirtualHost(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{`{"default_queue_type":"quorum"}`: "quorum", `{"default_queue_type":"undefined"}`: "", `{}`: ""} {
		m := api(t, map[string]string{"/api/overview": `{"rabbitmq_version":"3.13.7"}`, "/api/exchanges/a%2Fb": `[]`, "/api/queues/a%2Fb": `[]`,
			"/api/bindings/a%2Fb": `[]`, "/api/policies/a%2Fb": `[]`, "/api/operator-policies/a%2Fb": `[]`, "/api/vhosts/a%2Fb": answer})
		if live, err := m.live(t.Context()); err != nil || live.DefaultType != want {
			t.Errorf("%s: got %q, %v, want %q", answer, live.DefaultType, err, want)
		}
	}
}

func TestLiveNamesWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	m := api(t, map[string]string{"/api/exchanges/a%2Fb": `[]`})
	if _, err := m.live(t.Context()); err == nil || !strings.Contains(err.Error(), "/api/queues/a%2Fb") || !strings.Contains(err.Error(), "401") {
		t.Errorf("got %v, want an error with the path and the status", err)
	}
}

func TestAPIArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`{"a":1,"b":"x"}`: `{"a":1,"b":"x"}`, `{}`: `{}`, `[]`: `null`, ` [ ] `: `null`} {
		var a perhaps[topology.Args]
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got, _ := json.Marshal(a.object); string(got) != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
