package moving

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// rehop move moves queues to another virtual host of the same broker: messages that are ready, wait, are delayed or have failed, and users with their
// permissions. The other virtual host has queues of the same names.
func TestMoveToAnotherVirtualHost(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		ctx := kit.Timeout(t, 2*kit.Limit)
		from := newCluster(t, ctx, r)
		to := newCluster(t, ctx, lab.At(t, strings.TrimSuffix(r.URL, "/"+r.Vhost), r.Management()))
		user := "user-of-" + from.Vhost
		from.API("PUT", "/api/users/"+user, map[string]any{"password": "secret", "tags": ""}, nil)
		t.Cleanup(func() { from.API("DELETE", "/api/users/"+user, nil, nil) })
		from.API("PUT", "/api/permissions/"+from.Vhost+"/"+user, map[string]string{"configure": "^$", "write": "^order$", "read": "^orders$"}, nil)

		first := kit.Subscribe(t, from.client, subscription(rehop.HandlerFunc(func(_ context.Context, d *rehop.Delivery) error {
			if d.Key == "order.waits" {
				return errors.New("not now")
			}
			return rehop.Permanent(errors.New("broken"))
		})))
		send := func(kind string, delay time.Duration) {
			for i := range each {
				kit.Publish(t, from.client, rehop.Message{Exchange: "order", Key: "order." + kind, ID: fmt.Sprint(kind, i), Delay: delay, Headers: map[string]any{"kept": int32(i)}})
			}
		}
		send("waits", 0)
		send("fails", 0)
		send("later", time.Hour)
		ch, there := from.Channel(), to.Channel()
		lab.Eventually(t, kit.Limit, "messages wait and have failed", func() bool {
			return from.Depth(ch, "rehop.step.1h") == each && from.Depth(ch, "orders.failed") == each
		})
		kit.Drain(t, first)
		send("ready", 0)
		// What the other virtual host has of its own stays.
		handled := make(chan *rehop.Delivery, 2*each+1)
		kit.Subscribe(t, to.client, subscription(kit.Into(handled)))
		kit.Publish(t, to.client, rehop.Message{Exchange: "order", Key: "order.own", ID: "own"})
		if d := kit.Receive(t, handled, "message"); d.ID != "own" {
			t.Fatalf("got message %s, want own", d.ID)
		}

		move := exec.CommandContext(ctx, kit.Program(t), "move", "--from", from.URL, "--from-management", from.Management(),
			"--to", to.URL, "--to-management", to.Management(), "--users", "--yes", "--timeout", "1m")
		move.Dir = t.TempDir()
		out, err := move.CombinedOutput()
		if err != nil {
			t.Fatalf("rehop move: %v\n%s", err, out)
		}
		for range each {
			if d := kit.Receive(t, handled, "message that was ready"); d.Key != "order.ready" || d.Exchange != "order" || d.Attempt != 1 || d.Headers["kept"] == nil {
				t.Errorf("got %s with exchange %s, key %s, attempt %d, headers %v; want one that was ready, unchanged", d.ID, d.Exchange, d.Key, d.Attempt, d.Headers)
			}
		}
		kit.WantDepth(t, to.Rabbit, there, "orders.failed", each)
		// Those that waited for their next attempt are delayed for the rest of the hour, as those that were published with a delay.
		lab.Eventually(t, kit.Limit, "messages wait in the target", func() bool { return sum(to.waiting(t)) == 2*each })
		if left := from.waiting(t); len(left) > 0 || from.Depth(ch, "orders") > 0 || from.Depth(ch, "orders.failed") > 0 {
			t.Errorf("the source still has %v, %d ready and %d failed messages, want none\n%s", left, from.Depth(ch, "orders"), from.Depth(ch, "orders.failed"), out)
		}
		if done, err := to.admin.Replay(ctx, "orders", admin.Options{}); err != nil || done.Done != each {
			t.Errorf("replay in the target: got %+v %v, want %d", done, err, each)
		}
		for range each {
			if d := kit.Receive(t, handled, "message that had failed"); d.Key != "order.fails" {
				t.Errorf("got %s, want one that had failed", d.Key)
			}
		}
		var permissions struct{ Configure, Write, Read string }
		to.API("GET", "/api/permissions/"+to.Vhost+"/"+user, nil, &permissions)
		if permissions.Configure != "^$" || permissions.Write != "^order$" || permissions.Read != "^orders$" {
			t.Errorf("the user has the permissions %+v in the target, want those of the source", permissions)
		}
	})
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}
