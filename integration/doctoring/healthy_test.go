package doctoring

import (
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// A virtual host with rehop's own layout, at work, by a user with the rights that it needs, has nothing to worry about.
func TestHealthy(t *testing.T) {
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		w := newWard(t, r)
		if err := w.ch.Close(); err != nil {
			t.Fatal(err)
		}
		user := "app-" + r.Vhost
		r.API("PUT", "/api/users/"+user, map[string]string{"password": "p", "tags": ""}, nil)
		t.Cleanup(func() { r.API("DELETE", "/api/users/"+user, nil, nil) })
		own := `^(rehop\.|order).*`
		r.API("PUT", "/api/permissions/"+r.Vhost+"/"+user, map[string]string{"configure": own, "write": own + "|amq\\.default", "read": own}, nil)
		client := kit.Open(t, rehop.Config{URL: strings.Replace(r.URL, "guest:guest@", user+":p@", 1), Exchanges: []rehop.Exchange{{Name: "order"}}})
		got := make(chan *rehop.Delivery, 10)
		kit.Subscribe(t, client, rehop.Subscriber{Queue: "orders", Exchange: "order", Handler: kit.Into(got)})
		kit.Subscribe(t, client, rehop.Subscriber{Queue: "order-events", MaxLength: 100, Overflow: "reject-publish", MessageTTL: time.Hour, Handler: kit.Into(got)})
		kit.Publish(t, client, rehop.Message{Exchange: "order", Key: "order.created"})
		kit.Receive(t, got, "the message")
		for _, f := range w.examine(w.admin, options()).Above(admin.Info) {
			if strings.HasPrefix(f.ID, "user.") && !strings.Contains(f.Object.Name, user) {
				continue // of other tests on the same broker
			}
			if f.ID == "broker.deprecated-feature" && strings.Contains(f.Found, "not found in this virtual host") {
				continue // of other tests on the same broker
			}
			if f.ID == "broker.support" {
				continue // of releases that are out of support
			}
			t.Errorf("got %s", f)
		}
	})
}
