package layouts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// declarations are what a plan declares in addition to rehop's own, a line each, as a program would write it.
func declarations(plan topology.Plan) []string {
	var lines []string
	say := func(format string, args ...any) {
		if line := fmt.Sprintf(format, args...); !strings.Contains(line, "rehop.") {
			lines = append(lines, line)
		}
	}
	with := func(args map[string]any) string {
		var all []string
		for name, value := range args {
			all = append(all, fmt.Sprintf(" %s=%v", name, value))
		}
		slices.Sort(all)
		return strings.Join(all, "")
	}
	for _, x := range plan.Exchanges {
		say("exchange %s %s%s", x.Name, x.Type, with(x.Args))
	}
	for _, q := range plan.Queues {
		say("queue %s%s", q.Name, with(q.Args))
	}
	for _, b := range plan.Bindings {
		say("bind %s to %s by %q%s", b.Destination, b.Source, b.Key, with(b.Args))
	}
	slices.Sort(lines)
	return lines
}

// The documents that the layouts are taken from declare these objects; all are durable, none is exclusive or deleted by itself.
// A program that follows them and a rehop consumer can share them: the broker compares every argument.
func TestPlansAreThoseOfTheDocuments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		layouts.Layout
		spec layouts.QueueSpec
		want string
	}{
		"pubsub, since 23 May 2018": {of(layout.PubSub{}), layouts.QueueSpec{Name: "ucenter@user", Keys: []string{"user.created"}}, `
			exchange master topic
			exchange master.retry topic
			exchange master.failed topic
			queue ucenter@user
			queue ucenter@user@failed
			queue ucenter@user@retry x-dead-letter-exchange=master x-dead-letter-routing-key=ucenter@user x-message-ttl=30000
			bind ucenter@user to master by "user.created"
			bind ucenter@user to master by "ucenter@user"
			bind ucenter@user@failed to master.failed by "ucenter@user"
			bind ucenter@user@retry to master.retry by "ucenter@user"`},
		"pubsub, before": {of(layout.PubSub{Form: layout.PubSubByKey}), layouts.QueueSpec{Name: "ucenter@user", Keys: []string{"user.created"}}, `
			exchange master topic
			exchange master.retry topic
			exchange master.failed topic
			queue ucenter@user
			queue ucenter@user@failed
			queue ucenter@user@retry x-dead-letter-exchange=master x-message-ttl=30000
			bind ucenter@user to master by "user.created"
			bind ucenter@user@failed to master.failed by "user.created"
			bind ucenter@user@retry to master.retry by "user.created"`},
		"dlx, order-summary-queue": {of(layout.DLX{}), layouts.QueueSpec{Name: "order-summary-queue", Exchange: "order", Keys: []string{"order.#"}}, `
			exchange dlx topic
			queue dlq x-queue-mode=lazy x-queue-type=classic
			bind dlq to dlx by "#"
			exchange order topic alternate-exchange=dlx
			queue order-summary-queue x-dead-letter-exchange=dlx x-max-length=300 x-message-ttl=86400000 x-overflow=drop-head
			bind order-summary-queue to order by "order.#"`},
		"dlx, order-notification-queue": {of(layout.DLX{}), layouts.QueueSpec{Name: "order-notification-queue", Exchange: "order", Keys: []string{"order.created"}}, `
			exchange dlx topic
			queue dlq x-queue-mode=lazy x-queue-type=classic
			bind dlq to dlx by "#"
			exchange order topic alternate-exchange=dlx
			queue order-notification-queue x-dead-letter-exchange=dlx x-max-length=300 x-message-ttl=86400000 x-overflow=drop-head
			bind order-notification-queue to order by "order.created"`},
		"dlx, a queue that only dead-letters": {of(layout.DLX{}), layouts.QueueSpec{Name: "order-notification-queue", Exchange: "order", Keys: []string{"order.created"},
			Args: map[string]any{"x-max-length": nil, "x-message-ttl": nil, "x-overflow": nil}}, `
			exchange dlx topic
			queue dlq x-queue-mode=lazy x-queue-type=classic
			bind dlq to dlx by "#"
			exchange order topic alternate-exchange=dlx
			queue order-notification-queue x-dead-letter-exchange=dlx
			bind order-notification-queue to order by "order.created"`},
		"sneakers": {of(layout.Sneakers{}), layouts.QueueSpec{Name: "downloads"}, `
			exchange sneakers direct
			queue downloads x-dead-letter-exchange=downloads-retry
			bind downloads to sneakers by "downloads"
			exchange downloads-retry topic
			exchange downloads-error topic
			exchange downloads-retry-requeue topic
			queue downloads-retry x-dead-letter-exchange=downloads-retry-requeue x-message-ttl=60000
			bind downloads-retry to downloads-retry by "#"
			queue downloads-error
			bind downloads-error to downloads-error by "#"
			bind downloads to downloads-retry-requeue by "#"`},
		"sneakers, with every option": {of(layout.Sneakers{Delay: 10 * time.Second, RetryName: "again", ErrorName: "errors", RequeueName: "back", RequeueKey: "downloads"}),
			layouts.QueueSpec{Name: "downloads", Exchange: "work", ExchangeType: "topic", Keys: []string{"a", "b"}}, `
			exchange work topic
			queue downloads x-dead-letter-exchange=again
			bind downloads to work by "a"
			bind downloads to work by "b"
			exchange again topic
			exchange errors topic
			exchange back topic
			queue again x-dead-letter-exchange=back x-message-ttl=10000
			bind again to again by "#"
			queue errors
			bind errors to errors by "#"
			bind downloads to back by "downloads"`},
		"envelope": {of(layout.Envelope{}), layouts.QueueSpec{Name: "order.main.q"}, `
			exchange order.main.x topic
			exchange order.retry.x direct
			exchange order.dead.x fanout
			queue order.main.q x-dead-letter-exchange=order.retry.x x-dead-letter-routing-key=order.retry
			queue order.retry.q x-dead-letter-exchange=order.main.x x-dead-letter-routing-key=order.created x-message-ttl=15000
			queue order.dead.q
			bind order.main.q to order.main.x by "order.created"
			bind order.retry.q to order.retry.x by "order.retry"
			bind order.dead.q to order.dead.x by ""`},
		"envelope, quorum": {of(layout.Envelope{Name: "order"}), layouts.QueueSpec{Name: "order.quorum.q", Type: layout.Quorum}, `
			exchange order.main.x topic
			exchange order.retry.x direct
			exchange order.dead.x fanout
			queue order.quorum.q x-dead-letter-exchange=order.dead.x x-delivery-limit=8 x-queue-type=quorum
			queue order.retry.q x-dead-letter-exchange=order.main.x x-dead-letter-routing-key=order.created x-message-ttl=15000
			queue order.dead.q
			bind order.quorum.q to order.main.x by "order.created"
			bind order.retry.q to order.retry.x by "order.retry"
			bind order.dead.q to order.dead.x by ""`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []string
			for line := range strings.Lines(strings.TrimSpace(c.want)) {
				want = append(want, strings.TrimSpace(line))
			}
			slices.Sort(want)
			plan := wholeOf(t, c.Layout, c.spec)
			if got := declarations(plan); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			for _, q := range plan.Queues {
				if q.Exclusive || q.AutoDelete || q.Passive {
					t.Errorf("got queue %+v, want one that stays", q)
				}
			}
		})
	}
}

// The document of the tiers names the delays and that one in between takes the next longer; it names no objects.
func TestTiersOfTheDocument(t *testing.T) {
	t.Parallel()
	delays := []string{"30s", "1m", "5m", "30m", "1h", "3h", "6h", "12h", "24h"}
	var want []string
	for _, d := range delays {
		ttl, err := time.ParseDuration(d)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, "exchange delay."+d+" fanout", fmt.Sprintf("bind delay.%s to delay.%s by \"\"", d, d),
			fmt.Sprintf("queue delay.%s x-dead-letter-exchange=delay.return x-message-ttl=%d x-queue-type=classic", d, ttl.Milliseconds()))
	}
	want = append(want, `bind q to delay.return by "q"`)
	got := declarations(wholeOf(t, of(layout.Tiers{Type: layout.Classic}), layouts.QueueSpec{Name: "q"}))
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("got\n%s\nwant %s among them", strings.Join(got, "\n"), line)
		}
	}
	for wait, tier := range map[time.Duration]string{
		0: "30s", time.Second: "30s", 30 * time.Second: "30s", 30*time.Second + 1: "1m", 15 * time.Minute: "30m", 30 * time.Minute: "30m",
		4 * time.Hour: "6h", 24*time.Hour - 1: "24h", 24 * time.Hour: "24h",
	} {
		verdict := of(layout.Tiers{}).Retry(layouts.Failure{Message: layouts.Message{Queue: "q"}, Attempt: 1, Delay: wait})
		if verdict.Do != layouts.Move || verdict.Address.Exchange != "delay."+tier || !verdict.ToQueue {
			t.Errorf("a wait of %v: got %v to %q, want Move to delay.%s", wait, verdict.Do, verdict.Address.Exchange, tier)
		}
	}
}
