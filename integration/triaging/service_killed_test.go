//go:build !race

package triaging

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

var (
	feedKills = flag.Int("feed-kills", 4, "how often the process of a service is killed while messages fail")
	feedSome  = flag.Int("feed-some", 400, "how many messages fail between two kills")
)

// The process of a service is killed again and again while messages fail. In the end the index has exactly the messages of the failed queue.
func TestSQLiteServiceKilled(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	ctx, d := kit.Timeout(t, 4*limit), openSQLite(t)
	store, closeStore, err := openStore(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore()
	client := kit.Open(t, rehop.Config{URL: r.URL, Reports: true})
	kit.Subscribe(t, client, rehop.Subscriber{Queue: queue, Retry: rehop.NoRetry(), Concurrency: 4, Handler: rehop.HandlerFunc(func(context.Context, *rehop.Delivery) error {
		return errors.New("connection refused")
	})})
	count := func() int {
		n := 0
		queues, err := store.Queues(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range queues {
			n += q.Failed
		}
		return n
	}
	ch := r.Channel()
	for killed := 0; killed < *feedKills; killed++ {
		s, before := startServer(t, r, d), count()
		kit.Publish(t, client, kit.Numbered(queue, *feedSome)...)
		lab.Eventually(t, limit, "some messages are in the index", func() bool { return count() > before })
		s.kill()
	}
	startServer(t, r, d)
	all := *feedKills * *feedSome
	kit.WantDepth(t, r, ch, queue+".failed", all)
	lab.Eventually(t, limit, fmt.Sprintf("%d messages are in the index", all), func() bool { return count() == all })
	a, err := admin.Open(ctx, admin.Config{URL: r.URL, Management: r.Management()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	service, err := triage.NewService(triage.ServiceConfig{Store: store, Admin: a})
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, limit, "no other sweep runs", func() bool {
		done, err := service.Reconcile(ctx, queue+".failed")
		if elseSweeps(err) {
			return false
		}
		if err != nil || done != (triage.Reconciled{Seen: all}) {
			t.Errorf("a sweep after it: got %+v, %v, want %d messages and no difference", done, err, all)
		}
		return true
	})
	if err := store.Check(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("kills=%d messages=%d, and the index is equal to the queue", *feedKills, all)
}
