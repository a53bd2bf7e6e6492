package mgmt

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/internal/wire"
)

// A client that is blocked does not hold up the API, and the API does not wait to be unblocked.
func TestBlockedPublishers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &broker.Server{Logger: quiet()}
		handler, err := Handler(server)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}()
		engine := handler.(*api).node
		_, r := newRecorder("GET", "/")
		c := &call{api: handler.(*api), user: engine.User("guest"), password: "guest", vhost: engine.Vhost("/"), r: r}
		s, err := c.connect()
		if err != nil {
			t.Fatal(err)
		}
		message := &wire.BasicPublish{RoutingKey: "nobody"}
		if _, err := s.publish(message, wire.Properties{}, nil); err != nil {
			t.Fatal(err)
		}
		engine.SetAlarm(node.DiskAlarm, true)
		synctest.Wait()
		if err := s.send(channel, message); err != nil { // makes the reader wait for the alarm
			t.Fatal(err)
		}
		synctest.Wait()

		ask := func(method, path, body string) (*httptest.ResponseRecorder, time.Duration) {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.SetBasicAuth("guest", "guest")
			r.Host, r.RemoteAddr = "localhost", "127.0.0.1:1"
			w := httptest.NewRecorder()
			began := time.Now()
			handler.ServeHTTP(w, r)
			return w, time.Since(began)
		}
		w, took := ask("GET", "/api/channels", "")
		var channels []map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &channels); err != nil || len(channels) != 1 || took > channelTimeout {
			t.Errorf("channels: got %s after %v, want one within %v", w.Body, took, channelTimeout)
		}
		for path, body := range map[string]string{
			"POST /api/exchanges/%2F/amq.default/publish": `{"routing_key":"q","properties":{},"payload":"x","payload_encoding":"string"}`,
			"GET /api/aliveness-test/%2F":                 "",
		} {
			method, path, _ := strings.Cut(path, " ")
			w, took := ask(method, path, body)
			if w.Code != 503 || took > 0 {
				t.Errorf("%s %s while publishers are blocked: got %d %s after %v, want 503 at once", method, path, w.Code, w.Body, took)
			}
		}
		engine.SetAlarm(node.DiskAlarm, false)
		s.close()
	})
}
