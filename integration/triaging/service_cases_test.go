package triaging

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/triage"
)

func isOdd(id string) bool { n, _ := strconv.Atoi(id); return n%2 == 1 }

func always(string) bool { return true }

// A message that fails is in the index soon, without a sweep, and the copy that subscribers report is the same message as the one in the failed queue, in
// each layout.
func TestReportsAreTheMessages(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]layout.Layout{"Native": layout.Native{}, "Tiers": layout.Tiers{}, "Sneakers": layout.Sneakers{}, "PubSub": layout.PubSub{}, "DLX": layout.DLX{}, "Envelope": layout.Envelope{}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				c := newScene(t, setting{rabbit: r, database: lab.Postgres(t), dialect: dialect.Postgres, layout: of, change: func(s *triage.ServiceConfig) { s.CheckEvery = time.Hour }})
				c.fail(0, 30)
				c.indexed("state:failed", 30)
				q := c.failedQueue()
				kit.WantDepth(t, r, r.Channel(), q.Name, 30)
				done, err := c.service.Reconcile(c.ctx, q.Name)
				c.must(err)
				if want := (triage.Reconciled{Seen: 30}); done != want {
					found, err := c.admin.Failed(c.ctx, q.Queue, 1, admin.Filter{})
					c.must(err)
					one, err := c.store.Search(c.ctx, c.query("id:"+found[0].ID), triage.Page{})
					c.must(err)
					t.Errorf("got %+v, want %+v\nin the queue: %+v\nin the index: %+v", done, want, found[0], one.Messages)
				}
				c.check()
			})
		})
	}
}

// TestRuns are what runs promise, on a real RabbitMQ and an embedded broker.
func TestRuns(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(c *scene){
		"Replay": replayRun, "Canary": canaryRun, "DiscardAndRestore": discardRun, "Keep": keepRun, "Edit": editRun, "EditFails": editFailsRun, "Redirect": redirectRun,
		"PauseAndStop": pauseRun, "Refused": refusedRun, "Gone": goneRun, "Nothing": nothingRun,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				c := newScene(t, setting{rabbit: r, database: lab.Postgres(t), dialect: dialect.Postgres})
				run(c)
				c.check()
			})
		})
	}
}

// A replay sends the messages that matched when it was started, and no others. The outcome of each is known.
func replayRun(c *scene) {
	c.fail(0, 60)
	c.indexed("state:failed", 60)
	c.fix(isOdd)
	r := c.start(triage.RunPlan{Action: triage.ActionReplay, Query: c.query("header.tenant:t-1")})
	if r.Counts.Total() != 20 {
		c.t.Errorf("got %+v, want 20 messages", r.Counts)
	}
	c.fail(60, 90) // half of them fail, and those of the tenant are not in the set
	r = c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Succeeded+n.Failed == 20 })
	if want := (triage.RunCounts{Succeeded: 10, Failed: 10}); r.Counts != want {
		c.t.Errorf("got %+v, want %+v", r.Counts, want)
	}
	c.indexed("state:failed", 65)
	c.indexed("state:succeeded run:"+r.ID, 10)
	kit.WantDepth(c.t, c.Rabbit, c.Channel(), c.failedQueue().Name, 65)
	for n := range 60 {
		id, want := strconv.Itoa(n), 0
		if n%3 == 1 && n%2 == 1 {
			want = 1
		}
		if got := c.handled.Of(id); got != want {
			c.t.Errorf("message %s: handled %d times, want %d", id, got, want)
		}
	}
	findings, err := c.admin.Doctor(c.ctx, admin.DoctorOptions{})
	c.must(err)
	for _, f := range findings {
		if f.Object.Name == "rehop.triage" {
			c.t.Errorf("doctor complains about the queue of reports: %v", f)
		}
	}
	records, err := c.store.AuditRecords(c.ctx, 0, 10)
	c.must(err)
	var actions []string
	for _, one := range records {
		actions = append(actions, one.Actor+" "+one.Action)
	}
	if want := []string{"rehop run.done", "ann run.start"}; !slices.Equal(actions, want) {
		c.t.Errorf("audit: got %v, want %v", actions, want)
	}
}

// A canary of which 30 % fail again stops before a tenth of the messages are sent.
func canaryRun(c *scene) {
	const all = 1000
	c.fail(0, all)
	c.indexed("state:failed", all)
	c.fix(func(id string) bool { n, _ := strconv.Atoi(id); return n%10 >= 3 })
	r := c.start(triage.RunPlan{Action: triage.ActionReplay, Canary: true})
	r = c.ends(r, triage.Stopped, func(n triage.RunCounts) bool { return n.Sent+n.Sending == 0 })
	if taken := r.Counts.Taken(); taken >= all/10 || r.Counts.Failed == 0 || !strings.Contains(r.Reason, "failed again") {
		c.t.Errorf("got %+v, because %q, want it to stop before %d are sent", r.Counts, r.Reason, all/10)
	}
	c.t.Logf("canary: of %d messages, 30 %% of which fail again, %d were sent when it stopped", all, r.Counts.Taken())
	c.fix(always)
	r = c.start(triage.RunPlan{Action: triage.ActionReplay, Canary: true})
	r = c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Sent+n.Sending == 0 })
	if r.Counts.Succeeded != r.Counts.Total() || c.handled.Len() != all || c.handled.Sum() != all {
		c.t.Errorf("got %+v, and %d messages handled %d times, want all of %d, each once", r.Counts, c.handled.Len(), c.handled.Sum(), all)
	}
}

// What was discarded can be restored, and is the same message then.
func discardRun(c *scene) {
	c.fail(0, 10)
	c.indexed("state:failed", 10)
	before := c.failedMessages()
	r := c.start(triage.RunPlan{Action: triage.ActionDiscard, Query: c.query("header.tenant:t-0")})
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 4 })
	c.indexed("state:discarded", 4)
	kit.WantDepth(c.t, c.Rabbit, c.Channel(), c.failedQueue().Name, 6)
	r = c.start(triage.RunPlan{Action: triage.ActionRestore, Query: c.query("state:discarded")})
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 4 })
	c.indexed("state:failed", 10)
	c.wantMessages(before)
	done, err := c.service.Reconcile(c.ctx, c.failedQueue().Name)
	c.must(err)
	if want := (triage.Reconciled{Seen: 10}); done != want {
		c.t.Errorf("got %+v, want %+v", done, want)
	}
}

// failedMessages are the messages in the failed queue, by id.
func (c *scene) failedMessages() map[string]admin.Message {
	c.t.Helper()
	all := make(map[string]admin.Message)
	found, err := c.admin.Failed(c.ctx, queue, 10_000, admin.Filter{})
	c.must(err)
	for _, m := range found {
		all[m.ID] = m
	}
	return all
}

// wantMessages compares the messages in the failed queue with those that were there.
func (c *scene) wantMessages(want map[string]admin.Message) {
	c.t.Helper()
	got := c.failedMessages()
	if len(got) != len(want) {
		c.t.Errorf("got %d messages in the failed queue, want %d", len(got), len(want))
	}
	for id, m := range want {
		a, b := exportOf(c, got[id]), exportOf(c, m)
		if !bytes.Equal(a, b) {
			c.t.Errorf("message %s: got\n%s\nwant\n%s", id, a, b)
		}
	}
}

func exportOf(c *scene, m admin.Message) []byte {
	c.t.Helper()
	line, err := c.admin.ExportLine(queue, m)
	c.must(err)
	return line
}

// Kept messages are in the store and not on the broker. They can be replayed, discarded and restored.
func keepRun(c *scene) {
	c.fail(0, 30)
	c.indexed("state:failed", 30)
	before := c.failedMessages()
	r := c.start(triage.RunPlan{Action: triage.ActionKeep})
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 30 })
	c.indexed("state:kept", 30)
	name := c.failedQueue().Name
	kit.WantDepth(c.t, c.Rabbit, c.Channel(), name, 0)
	if _, err := c.service.Reconcile(c.ctx, name); err != nil || c.count("state:kept") != 30 {
		c.t.Errorf("after a sweep: %v, %d kept, want 30", err, c.count("state:kept"))
	}
	found, err := c.store.Search(c.ctx, c.query("id:7"), triage.Page{})
	c.must(err)
	line, err := c.store.Kept(c.ctx, found.Messages[0].Ref)
	c.must(err)
	if want := exportOf(c, before["7"]); !bytes.Equal(line, want) {
		c.t.Errorf("in the store: got\n%s\nwant\n%s", line, want)
	}
	c.fix(always)
	r = c.start(triage.RunPlan{Action: triage.ActionReplay, Query: c.query("header.tenant:t-1")})
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Succeeded == 10 })
	r = c.start(triage.RunPlan{Action: triage.ActionDiscard, Query: c.query("header.tenant:t-2")})
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 10 })
	c.indexed("state:discarded", 10)
	c.indexed("state:kept", 10)
	if c.handled.Sum() != 10 {
		c.t.Errorf("handled %d, want 10", c.handled.Sum())
	}
	r = c.start(triage.RunPlan{Action: triage.ActionRestore})
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Sent == 20 })
	for id := range before {
		if n, _ := strconv.Atoi(id); n%3 == 1 {
			delete(before, id)
		}
	}
	c.wantMessages(before)
	c.indexed("state:failed", 20)
}

// An edited message is handled once, with a new id, and the old one is not in the failed queue any more.
func editRun(c *scene) {
	c.fail(0, 3)
	c.indexed("state:failed", 3)
	got := make(chan rehop.Delivery, 10)
	kit.Subscribe(c.t, c.client, rehop.Subscriber{Queue: "edited", Handler: kit.Into(intoValues(got))})
	found, err := c.store.Search(c.ctx, c.query("id:1"), triage.Page{})
	c.must(err)
	plan := triage.RunPlan{Action: triage.ActionReplay, Refs: []string{found.Messages[0].Ref}, To: "edited",
		Edit: &triage.Edit{Body: []byte(`{"order":9007199254740993}`), ContentType: "application/json", Headers: map[string]any{"tenant": "t-9", "n": int32(5)}}}
	r := c.start(plan)
	d := kit.Receive(c.t, got, "the edited message")
	if d.ID == "1" || string(d.Body) != `{"order":9007199254740993}` || !reflect.DeepEqual(d.Headers, plan.Edit.Headers) || d.ContentType != "application/json" {
		c.t.Errorf("got %+v, want the edited message with a new id", d)
	}
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Succeeded == 1 })
	c.indexed("state:succeeded", 1)
	c.indexed("state:failed", 2)
}

// An edited message that fails, too, is linked with the old one, which can be restored and is the same then.
func editFailsRun(c *scene) {
	c.fail(0, 3)
	c.indexed("state:failed", 3)
	before := c.failedMessages()
	ref := c.only("id:1").Ref
	r := c.start(triage.RunPlan{Action: triage.ActionReplay, Refs: []string{ref}, Edit: &triage.Edit{Body: []byte("edited"), Headers: map[string]any{"tenant": "t-9"}}})
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Failed == 1 })
	c.indexed("state:discarded", 1)
	c.indexed("state:failed header.tenant:t-9", 1)
	edited := c.only("state:failed header.tenant:t-9")
	runs, err := c.store.RunsOf(c.ctx, ref)
	c.must(err)
	if len(runs) != 1 || runs[0].Run.ID != r.ID || runs[0].Item.State != triage.ItemFailed || runs[0].Item.SentID != edited.ID || runs[0].EditedAs != edited.Ref {
		c.t.Errorf("got %+v, want the run %s, and the edited message %s as %s", runs, r.ID, edited.ID, edited.Ref)
	}
	for m, want := range map[string]string{edited.Ref: ref, ref: "", c.only("id:2").Ref: ""} {
		one, err := c.store.Message(c.ctx, m)
		c.must(err)
		if from, err := c.store.EditedFrom(c.ctx, one); err != nil || from != want {
			c.t.Errorf("message %s: got that it was edited from %q, %v, want %q", one.ID, from, err, want)
		}
	}
	r = c.start(triage.RunPlan{Action: triage.ActionRestore, Refs: []string{ref}})
	r = c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Total() == n.Sent+n.Gone })
	if r.Counts.Sent != 1 {
		c.t.Errorf("got %+v, want the message to be restored", r.Counts)
	}
	after := c.failedMessages()
	before[edited.ID] = after[edited.ID]
	c.wantMessages(before)
	c.indexed("state:failed", 4)
	if runs, err = c.store.RunsOf(c.ctx, ref); err != nil || len(runs) != 2 || runs[0].Run.ID != r.ID {
		c.t.Errorf("got %+v, %v, want both runs, the newest first", runs, err)
	}
}

// only is the message that matches a query.
func (c *scene) only(text string) triage.Message {
	c.t.Helper()
	found, err := c.store.Search(c.ctx, c.query(text), triage.Page{})
	c.must(err)
	if len(found.Messages) != 1 {
		c.t.Fatalf("%q: got %d messages, want one", text, len(found.Messages))
	}
	return found.Messages[0]
}

// intoValues hands deliveries on as values.
func intoValues(got chan<- rehop.Delivery) chan<- *rehop.Delivery {
	in := make(chan *rehop.Delivery)
	go func() {
		for d := range in {
			got <- *d
		}
	}()
	return in
}

// A replay can go to another queue, whose failed queue has it if it fails there.
func redirectRun(c *scene) {
	c.fail(0, 4)
	c.indexed("state:failed", 4)
	kit.Subscribe(c.t, c.client, rehop.Subscriber{Queue: "other", Retry: rehop.NoRetry(), Handler: rehop.HandlerFunc(c.handle)})
	c.fix(isOdd)
	r := c.start(triage.RunPlan{Action: triage.ActionReplay, To: "other"})
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Succeeded == 2 && n.Failed == 2 })
	c.indexed("state:failed queue:other", 2)
	kit.WantDepth(c.t, c.Rabbit, c.Channel(), "other.failed", 2)
	r = c.start(triage.RunPlan{Action: triage.ActionReplay, To: "missing"})
	if r = c.ends(r, triage.Paused, func(n triage.RunCounts) bool { return n.Planned == 2 }); !strings.Contains(r.Reason, `"missing" does not exist`) {
		c.t.Errorf("got %q, want that the queue is missing", r.Reason)
	}
	kit.Subscribe(c.t, c.client, rehop.Subscriber{Queue: "missing", Handler: kit.Nop})
	if _, err := c.store.SetRun(c.ctx, r.ID, triage.Running, "ann", ""); err != nil {
		c.t.Fatal(err)
	}
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Succeeded == 2 })
	if _, err := c.store.StartRun(c.ctx, triage.RunPlan{Action: triage.ActionReplay, Actor: "ann", To: strings.Repeat("x", 300)}); err == nil {
		c.t.Error("a queue with a name of 300 bytes: got no error")
	}
	// The index does not know this failed queue, and the broker does.
	c.fix(func(string) bool { return false })
	c.fail(10, 11)
	c.indexed("state:failed", 1)
	r = c.start(triage.RunPlan{Action: triage.ActionReplay, To: "missing.failed"})
	if r = c.ends(r, triage.Paused, func(n triage.RunCounts) bool { return n.Planned == 1 }); !strings.Contains(r.Reason, "failed queue") {
		c.t.Errorf("got %q, want that it is a failed queue", r.Reason)
	}
	kit.WantDepth(c.t, c.Rabbit, c.Channel(), "missing.failed", 0)
}

// A run that is paused sends nothing, continues where it was, and stops for good.
func pauseRun(c *scene) {
	c.fail(0, 50)
	c.indexed("state:failed", 50)
	c.fix(always)
	r := c.start(triage.RunPlan{Action: triage.ActionReplay, Rate: 5})
	c.eventually("some messages are sent", func() bool { return c.handled.Len() >= 2 })
	if _, err := c.store.SetRun(c.ctx, r.ID, triage.Paused, "bob", "lunch"); err != nil {
		c.t.Fatal(err)
	}
	r = c.ends(r, triage.Paused, func(n triage.RunCounts) bool { return n.Sending+n.Sent == 0 })
	if r.Reason != "lunch" || r.Counts.Planned == 0 || r.Counts.Planned+r.Counts.Succeeded != 50 {
		c.t.Errorf("got %+v, want a part of 50 messages sent", r)
	}
	if _, err := c.store.SetRun(c.ctx, r.ID, triage.Running, "bob", ""); err != nil {
		c.t.Fatal(err)
	}
	c.eventually("more messages are sent", func() bool { return c.handled.Len() > r.Counts.Succeeded })
	if _, err := c.store.SetRun(c.ctx, r.ID, triage.Stopped, "bob", "enough"); err != nil {
		c.t.Fatal(err)
	}
	r = c.ends(r, triage.Stopped, func(n triage.RunCounts) bool { return n.Sending+n.Sent == 0 })
	if _, err := c.store.SetRun(c.ctx, r.ID, triage.Running, "bob", ""); err == nil {
		c.t.Error("a run that was stopped continues")
	}
	c.indexed("state:failed", r.Counts.Planned)
	c.indexed("state:succeeded", r.Counts.Succeeded)
	if c.handled.Sum() != r.Counts.Succeeded {
		c.t.Errorf("handled %d times, want %d", c.handled.Sum(), r.Counts.Succeeded)
	}
}

// Messages that cannot be replayed because their queue is gone stay, and the run has the reason.
func refusedRun(c *scene) {
	c.fail(0, 5)
	c.indexed("state:failed", 5)
	kit.Drain(c.t, c.sub) // it would declare the queue again
	kit.DeleteQueue(c.t, c.Channel(), queue)
	r := c.start(triage.RunPlan{Action: triage.ActionReplay})
	r = c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Refused == 5 })
	items, err := c.store.RunItems(c.ctx, r.ID, triage.ItemRefused, triage.Page{})
	c.must(err)
	if len(items.Items) != 5 || items.Items[0].Reason == "" {
		c.t.Errorf("got %+v, want 5 messages with a reason", items)
	}
	c.indexed("state:failed", 5)
	kit.WantDepth(c.t, c.Rabbit, c.Channel(), queue+".failed", 5)
}

// Messages that are not in the failed queue any more are gone, and those that failed another time are not sent.
func goneRun(c *scene) {
	c.fail(0, 5)
	c.indexed("state:failed", 5)
	r := c.start(triage.RunPlan{Action: triage.ActionReplay, Rate: 0.001})
	ch := c.Channel()
	c.eventually("the run has begun", func() bool { now, err := c.store.Run(c.ctx, r.ID); c.must(err); return now.Counts.Planned < 5 })
	if _, err := c.store.SetRun(c.ctx, r.ID, triage.Paused, "bob", ""); err != nil {
		c.t.Fatal(err)
	}
	c.ends(r, triage.Paused, func(n triage.RunCounts) bool { return n.Failed == 1 && n.Planned == 4 })
	c.eventually("nobody reads the failed queue", func() bool {
		_, err := c.admin.CountFailed(c.ctx, queue, admin.Filter{})
		if !errors.Is(err, admin.ErrBusy) {
			c.must(err)
		}
		return err == nil
	})
	purged := 0 // a sweep may hold some
	c.eventually("the failed queue is purged", func() bool {
		n, err := ch.QueuePurge(queue+".failed", false)
		c.must(err)
		purged += n
		return purged == 5
	})
	c.fix(always)
	if _, err := c.store.SetRun(c.ctx, r.ID, triage.Running, "bob", ""); err != nil {
		c.t.Fatal(err)
	}
	c.ends(r, triage.Done, func(n triage.RunCounts) bool { return n.Gone == 4 })
	c.indexed("state:gone", 5)
	if c.handled.Sum() != 0 {
		c.t.Errorf("handled %d messages, want none", c.handled.Sum())
	}
}

// A run without messages is an error, and leaves nothing behind.
func nothingRun(c *scene) {
	c.fail(0, 1)
	c.indexed("state:failed", 1)
	for _, plan := range []triage.RunPlan{
		{Action: triage.ActionReplay, Query: c.query("nowhere")}, {Action: triage.ActionRestore}, {Action: "explode"}, {Action: triage.ActionReplay, Rate: -1},
		{Action: triage.ActionDiscard, Canary: true}, {Action: triage.ActionReplay, Refs: []string{"xyz"}}, {Action: triage.ActionReplay, Edit: &triage.Edit{}},
	} {
		plan.Actor = "ann"
		if r, err := c.store.StartRun(c.ctx, plan); err == nil {
			c.t.Errorf("%+v: got run %+v, want an error", plan, r)
		}
	}
	runs, err := c.store.Runs(c.ctx, triage.RunFilter{})
	head, auditErr := c.store.AuditHead(c.ctx)
	if err != nil || auditErr != nil || len(runs) != 0 || head.Number != 0 {
		text, _ := json.Marshal(runs)
		c.t.Errorf("got runs %s, %d records, %v, %v, want none", text, head.Number, err, auditErr)
	}
}

// Without reports, an index becomes equal to the failed queues by sweeps: with messages that the broker has dead-lettered, and those that others have purged.
func TestComparedWithoutReports(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		c := newScene(t, setting{rabbit: r, database: lab.Postgres(t), dialect: dialect.Postgres, silent: true})
		c.fail(0, 40)
		c.indexed("state:failed", 40)
		if _, err := c.admin.Discard(c.ctx, queue, admin.Options{Filter: admin.Filter{Header: map[string]string{"tenant": "t-0"}}}); err != nil {
			t.Fatal(err)
		}
		c.indexed("state:failed", 26)
		c.indexed("state:gone", 14)
		kit.DeleteQueue(t, r.Channel(), queue+".failed")
		c.indexed("state:failed", 0)
		c.indexed("state:gone", 40)
		c.check()
	})
}

// A message that is restored while a sweep runs is not gone: the sweep may have read the queue before.
func TestRestoredWhileSwept(t *testing.T) {
	t.Parallel()
	c := newScene(t, setting{rabbit: lab.Embedded(t), database: lab.Postgres(t), dialect: dialect.Postgres, change: func(s *triage.ServiceConfig) { s.CheckEvery = time.Hour }})
	c.fail(0, 10)
	c.indexed("state:failed", 10)
	all := func(n triage.RunCounts) bool { return n.Sent == 10 }
	c.ends(c.start(triage.RunPlan{Action: triage.ActionDiscard}), triage.Done, all)
	done, err := c.store.Reconcile(c.ctx, c.failedQueue().Name, func(func([]triage.Message, error) bool) {
		c.ends(c.start(triage.RunPlan{Action: triage.ActionRestore}), triage.Done, all)
	})
	c.must(err)
	if done != (triage.Reconciled{}) || c.count("state:failed") != 10 {
		t.Errorf("got %+v, and %d failed messages, want 10, and none of them gone", done, c.count("state:failed"))
	}
	c.check()
}
