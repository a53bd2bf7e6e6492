package management

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/lab"
)

// TestDelayedMessages: messages that a quorum queue delays are counted apart from those that are ready, though their bytes are not. Releases before 4.3
// know nothing of it.
func TestDelayedMessages(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		ch := p.channel()
		_, err := ch.QueueDeclare("q", true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-delayed-retry-type": "all",
			"x-delayed-retry-min": time.Hour.Milliseconds(), "x-delayed-retry-max": 10 * time.Hour.Milliseconds()})
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{"seven..", "four", "nine....."} {
			if err := ch.Publish("", "q", false, false, amqp.Publishing{Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
		}
		take := func() amqp.Delivery {
			var d amqp.Delivery
			lab.Eventually(t, settle, "a message can be had", func() (ok bool) {
				if d, ok, err = ch.Get("q", false); err != nil {
					t.Fatal(err)
				}
				return ok
			})
			return d
		}
		delayed, held := take(), take()
		before := time.Now()
		if err := delayed.Nack(false, true); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		lab.Eventually(t, settle, "the statistics know that one of two messages is back", func() bool {
			got = make(map[string]any)
			if err := json.Unmarshal([]byte(p.must("GET", "/api/queues/"+p.vhost+"/q", "")), &got); err != nil {
				t.Fatal(err)
			}
			return got["messages"] == 3.0 && got["messages_unacknowledged"] == 1.0
		})
		// Releases since 4.3 count properties, too.
		want := map[string]any{"messages_ready": 1.0, "messages_delayed": 1.0, "messages_ready_returned": 0.0, "message_bytes_ready": 20.0,
			"delayed_retry": "all (min: 3600000ms, max: 36000000ms)"}
		if lab.Release() < broker.RabbitMQ43 {
			want = map[string]any{"messages_ready": 2.0, "messages_delayed": nil, "message_bytes_ready": 16.0, "delayed_retry": nil, "next_delayed_at": nil, "last_delayed_at": nil}
		}
		for key, want := range want {
			if got[key] != want {
				t.Errorf("%s: got %v, want %v", key, got[key], want)
			}
		}
		if lab.Release() >= broker.RabbitMQ43 {
			for _, key := range []string{"next_delayed_at", "last_delayed_at"} {
				if at, ok := got[key].(float64); !ok || int64(at) < before.Add(time.Hour).UnixMilli() || int64(at) > time.Now().Add(time.Hour).UnixMilli() {
					t.Errorf("%s: got %v, want an hour after the message came back", key, got[key])
				}
			}
		}
		if err := held.Ack(false); err != nil {
			t.Fatal(err)
		}
	})
}

// TestDelayedRetryPolicies: policies for it have to make sense.
func TestDelayedRetryPolicies(t *testing.T) {
	each(t, func(t *testing.T, p *place) {
		for _, kind := range []string{"policies", "operator-policies"} {
			for definition, want := range map[string]string{
				`{"delayed-retry-type":"all","delayed-retry-min":5,"delayed-retry-max":5}`: "",
				`{"delayed-retry-type":"disabled"}`:                                        "",
				`{"delayed-retry-max":7}`:                                                  "",
				`{"delayed-retry-type":"bogus"}`:                                           "is not a valid delayed retry type. Must be one of: all, failed, returned, disabled",
				`{"delayed-retry-min":0}`:                                                  "0 is not a valid delayed retry minimum delay. Must be a positive integer",
				`{"delayed-retry-max":"x"}`:                                                "is not a valid delayed retry maximum delay. Must be a positive integer",
				`{"delayed-retry-type":"failed","unknown":1}`:                              "delayed-retry-min is required when delayed-retry-type is failed",
				`{"delayed-retry-min":5,"delayed-retry-max":4}`:                            "delayed-retry-max (4) must not be smaller than delayed-retry-min (5)",
			} {
				if lab.Release() < broker.RabbitMQ43 {
					want = "are not recognised policy settings"
				}
				status, answer := p.request("guest", "guest", "PUT", "/api/"+kind+"/"+p.vhost+"/p", `{"pattern":"^q$","apply-to":"queues","definition":`+definition+`}`)
				if accepted := status < 300; accepted != (want == "") || !strings.Contains(answer, want) {
					t.Errorf("%s %s: got %d %s, want %q", kind, definition, status, answer, want)
				}
			}
		}
	})
}
