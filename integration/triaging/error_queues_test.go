package triaging

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

const (
	billing       = "billing"
	billingErrors = "billing_error"
)

// letter is a message of billing as MassTransit leaves it in its error queue.
func letter(n int) amqp.Publishing {
	return amqp.Publishing{MessageId: fmt.Sprint("b", n), ContentType: "application/json", DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, `{"order":%d}`, n),
		Headers: amqp.Table{"tenant": fmt.Sprint("t-", n%3), "MT-Reason": "fault", "MT-Fault-Message": "no such customer", "MT-Fault-ExceptionType": "System.Exception",
			"MT-Fault-InputAddress": "rabbitmq://mq/billing", "MT-Fault-Timestamp": fmt.Sprintf("2026-03-04T05:06:%02d.0000000Z", n%60)}}
}

// takeByID takes all messages of a queue, of which there are n. The service can hold some of them for a moment, to compare them with the index.
func (c *scene) takeByID(name string, n int) map[string]amqp.Delivery {
	c.t.Helper()
	all, ch := make(map[string]amqp.Delivery), c.Channel()
	c.eventually(fmt.Sprintf("queue %s has %d messages", name, n), func() bool {
		for _, d := range kit.TakeAll(c.t, ch, name) {
			if _, twice := all[d.MessageId]; twice {
				c.t.Errorf("message %s is twice in queue %s", d.MessageId, name)
			}
			all[d.MessageId] = d
		}
		return len(all) >= n
	})
	return all
}

// An error queue of another framework has an index, too, and all actions work on its messages. Nobody reports what becomes of them.
func TestErrorQueues(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		c := newScene(t, setting{rabbit: r, database: lab.Postgres(t), dialect: dialect.Postgres, silent: true,
			change: func(s *triage.ServiceConfig) { s.ErrorQueues = []string{billingErrors} }})
		ch := c.Channel()
		for _, name := range []string{billing, billingErrors} {
			if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
				t.Fatal(err)
			}
		}
		const all = 30
		c.must(ch.Confirm(false))
		for n := range all {
			confirmed, err := ch.PublishWithDeferredConfirmWithContext(c.ctx, "", billingErrors, true, false, letter(n))
			c.must(err)
			if ok, err := confirmed.WaitContext(c.ctx); err != nil || !ok {
				t.Fatalf("publish: %v, %v", ok, err)
			}
		}
		c.indexed("state:failed queue:billing error:customer", all)
		groups, err := c.store.Groups(c.ctx, triage.GroupFilter{})
		c.must(err)
		if len(groups.Groups) != 1 || groups.Groups[0].Queue != billing || groups.Groups[0].Counts.Failed != all {
			t.Errorf("got the groups %+v, want one of queue %s with %d messages", groups.Groups, billing, all)
		}

		// A replay unwraps them, and takes those of the run only.
		run := c.start(triage.RunPlan{Action: triage.ActionReplay, Query: c.query("header.tenant:t-1")})
		c.ends(run, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 10 })
		kit.WantDepth(t, c.Rabbit, ch, billingErrors, all-10)
		replayed := c.takeByID(billing, 10)
		for id, d := range replayed {
			if _, has := d.Headers["MT-Reason"]; has || d.Headers["tenant"] != "t-1" {
				t.Errorf("message %s was replayed with the headers %v, want those from before its failure", id, d.Headers)
			}
		}
		if len(replayed) != 10 {
			t.Errorf("got %d messages in %s, want 10", len(replayed), billing)
		}
		c.indexed("state:replayed", 10)

		// What is discarded or kept comes back as it was, with its record.
		run = c.start(triage.RunPlan{Action: triage.ActionDiscard, Query: c.query("state:failed header.tenant:t-0")})
		c.ends(run, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 10 })
		run = c.start(triage.RunPlan{Action: triage.ActionKeep, Query: c.query("state:failed header.tenant:t-2")})
		c.ends(run, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 10 })
		kit.WantDepth(t, c.Rabbit, ch, billingErrors, 0)
		run = c.start(triage.RunPlan{Action: triage.ActionRestore, Query: c.query("state:discarded")})
		c.ends(run, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 10 })
		run = c.start(triage.RunPlan{Action: triage.ActionReplay, Query: c.query("state:kept body.order:2")})
		c.ends(run, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 1 })
		if got := c.takeByID(billing, 1); len(got) != 1 || got["b2"].Headers["MT-Reason"] != nil {
			t.Errorf("from the store: got %v in %s, want b2 without the record of its failure", got, billing)
		}
		run = c.start(triage.RunPlan{Action: triage.ActionRestore, Query: c.query("state:kept")})
		c.ends(run, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 9 })
		c.indexed("state:failed", 19)
		restored := c.takeByID(billingErrors, 19)
		for n := range all {
			want := letter(n)
			got, has := restored[want.MessageId]
			if back := n%3 != 1 && n != 2; has != back {
				t.Errorf("message %s: in the error queue %v, want %v", want.MessageId, has, back)
			}
			if has && (!reflect.DeepEqual(plainHeaders(got.Headers), want.Headers) || string(got.Body) != string(want.Body) || got.ContentType != want.ContentType) {
				t.Errorf("message %s was restored as %v %s, want %v %s", want.MessageId, got.Headers, got.Body, want.Headers, want.Body)
			}
		}

		// Somebody else took them.
		if _, err := c.service.Reconcile(context.WithoutCancel(c.ctx), billingErrors); err != nil {
			t.Error(err)
		}
		c.indexed("state:gone", 19)
		c.check()
	})
}

// plainHeaders are headers without those of the broker.
func plainHeaders(all amqp.Table) amqp.Table {
	plain := make(amqp.Table)
	for name, value := range all {
		if !strings.HasPrefix(name, "x-") {
			plain[name] = value
		}
	}
	return plain
}
