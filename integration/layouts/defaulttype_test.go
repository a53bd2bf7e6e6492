package layouts

import (
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// A virtual host can have another default type of queues than classic, from RabbitMQ 3.11 on. All layouts can be declared there, and again.
func TestDefaultQueueType(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]layout.Layout{
		"native": nil, "pubsub": layout.PubSub{}, "dlx": layout.DLX{}, "tiers": layout.Tiers{}, "sneakers": layout.Sneakers{}, "envelope": layout.Envelope{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			r.API("PUT", "/api/vhosts/"+r.Vhost, map[string]any{"default_queue_type": "quorum"}, nil)
			c := kit.OpenQuick(t, r, rehop.Config{})
			s := rehop.Subscriber{Queue: "q", Exchange: "x", Keys: []string{"k"}, Layout: l, Retry: rehop.Steps(100 * time.Millisecond), Handler: kit.Nop}
			kit.Stop(t, kit.Subscribe(t, c, s))
			kit.Stop(t, kit.Subscribe(t, kit.OpenQuick(t, r, rehop.Config{}), s))
		})
	}
}
