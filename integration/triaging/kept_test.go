package triaging

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// TestKept is what runs promise about messages that are in the store.
func TestKept(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(b *workbench){
		"TwoRestores": twoRestores, "TwoWorkers": twoWorkers, "RestoreStopped": restoreStopped, "ReplayStopped": replayStopped, "RestorePaused": restorePaused, "ReusedID": reusedID,
		"EqualMessages": equalMessages, "NotRecorded": notRecorded, "StoppedRunReleases": stoppedRunReleases, "CanaryOfKept": canaryOfKept, "WithoutFailure": keptWithoutFailure,
		"CleanedDuringRestore": cleanedDuringRestore, "RestoreWithoutContents": restoreWithoutContents, "RestoreNotRecorded": restoreNotRecorded,
		"RestoreNotRecordedPaused": restoreNotRecordedPaused, "EndWithoutDatabase": endWithoutDatabase, "CanaryKilled": canaryKilled,
		"EqualContinued": equalContinued, "EqualStopped": equalStopped,
		"EqualKeepNotRecorded": equalKeepNotRecorded, "EqualDiscardNotRecorded": equalDiscardNotRecorded, "EqualReplayNotRecorded": equalReplayNotRecorded,
		"CopyOfReplayed": copyOfReplayed, "CopyOfEqual": copyOfEqual, "CopyOfReusedID": copyOfReusedID, "CopyAfterKill": copyAfterKill,
		"LongTransaction": longTransaction,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorkbench(t, lab.Embedded(t), lab.Postgres(t)))
		})
	}
}

// Two restores of the same messages, as of an operator who clicks twice, return each message once.
func twoRestores(b *workbench) {
	const n = 1000
	b.fillMany(n)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	b.want(n, 0, nil)
	one, two := b.start(triage.RunPlan{Action: triage.ActionRestore}), b.start(triage.RunPlan{Action: triage.ActionRestore})
	end := b.work()
	one, two = b.ended(one), b.ended(two)
	end()
	if sum := one.Counts.Sent + two.Counts.Sent; sum != n || one.Counts.Gone+two.Counts.Gone != n {
		b.t.Errorf("got %+v and %+v, want %d messages sent by one of the runs, and gone for the other", one.Counts, two.Counts, n)
	}
	b.want(0, n, nil)
}

// The lease of a process expires while it works, and another process works on the same run. What the first was returning can be there twice, at most a batch
// each time, and on a slow machine it happens several times. The counts are right.
func twoWorkers(b *workbench) {
	const n = 3000
	b.fillMany(n)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	r := b.start(triage.RunPlan{Action: triage.ActionRestore})
	one, two := b.work(), b.work()
	b.until(r, "messages are restored", func(r triage.Run) bool { return r.Counts.Sent > 0 })
	_, err := b.db.ExecContext(b.ctx, "UPDATE rehop_triage_lease SET expires = 0")
	b.must(err)
	r = b.ended(r)
	one()
	two()
	if want := (triage.RunCounts{Sent: n}); r.Counts != want {
		b.t.Errorf("got %+v, want %+v", r.Counts, want)
	}
	seen := make(map[string]int)
	for _, d := range kit.TakeAll(b.t, b.ch, queue+".failed") {
		seen[d.MessageId]++
	}
	twice := 0
	for _, times := range seen {
		twice += times - 1
	}
	if len(seen) != n {
		b.t.Errorf("got %d different messages in the failed queue, want %d", len(seen), n)
	}
	b.t.Logf("%d messages, %d of them twice", len(seen), twice)
	b.must(b.store.Check(b.ctx))
}

// A restore that cannot publish is stopped. The messages stay in the store, and can be restored later.
func restoreStopped(b *workbench) {
	const n = 20
	b.fillMany(n)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	b.stoppedWithoutBroker(triage.ActionRestore, n)
	r := b.run(triage.RunPlan{Action: triage.ActionRestore})
	if r.Counts.Sent != n {
		b.t.Errorf("a second restore: got %+v, want %d sent", r.Counts, n)
	}
	b.want(0, n, map[string]int{"state:failed": n})
}

// The same with a replay of messages in the store.
func replayStopped(b *workbench) {
	const n = 20
	b.fillMany(n)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	b.stoppedWithoutBroker(triage.ActionReplay, n)
	b.run(triage.RunPlan{Action: triage.ActionReplay})
	b.want(0, 0, map[string]int{"state:replayed": n})
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue, n)
}

// stoppedWithoutBroker starts a run whose process loses the broker, and stops it. Nothing has left the store.
func (b *workbench) stoppedWithoutBroker(action triage.Action, n int) {
	b.t.Helper()
	b.unplug()
	r := b.start(triage.RunPlan{Action: action})
	end := b.work()
	b.until(r, "messages are being sent", func(r triage.Run) bool { return r.Counts.Sending > 0 && r.Reason != "" })
	b.set(r, triage.Stopped)
	b.plug()
	r = b.ended(r)
	end()
	b.reconcile()
	if r.Counts.Planned != n {
		b.t.Errorf("got %+v, want %d messages that were not sent", r.Counts, n)
	}
	_, err := b.store.Clean(b.ctx, 0) // as after the retention
	b.must(err)
	b.want(n, 0, map[string]int{"state:kept": n})
}

// A restore is paused and continued again and again. Nothing is killed, so no message is there twice.
func restorePaused(b *workbench) {
	const n = 2500
	b.fillMany(n)
	for pauses := 0; pauses == 0; {
		b.run(triage.RunPlan{Action: triage.ActionKeep})
		r := b.start(triage.RunPlan{Action: triage.ActionRestore})
		for done, sent := false, -1; !done; {
			end := b.work()
			now := b.until(r, "it makes progress", func(r triage.Run) bool { return r.State == triage.Done || r.Counts.Sent > sent && r.Counts.Sending > 0 })
			if done = now.State == triage.Done; !done {
				sent = now.Counts.Sent
				pauses += b.pauses(r)
				end() // it has let go of the run
				done = b.continues(r)
			}
			end()
		}
		b.want(0, n, nil)
	}
}

// pauses pauses a run, and returns 1, or 0 if it has ended.
func (b *workbench) pauses(r triage.Run) int {
	b.t.Helper()
	_, err := b.store.SetRun(b.ctx, r.ID, triage.Paused, "ann", "")
	if errors.Is(err, triage.ErrRunEnded) {
		return 0
	}
	b.must(err)
	return 1
}

// continues continues a run, and reports whether it has ended instead.
func (b *workbench) continues(r triage.Run) (ended bool) {
	b.t.Helper()
	_, err := b.store.SetRun(b.ctx, r.ID, triage.Running, "ann", "")
	if errors.Is(err, triage.ErrRunEnded) {
		return true
	}
	b.must(err)
	return false
}

// A publisher uses an id for two messages. One is kept, and the other fails again after a replay. The kept one stays, also when the other is kept.
func reusedID(b *workbench) {
	b.fill(failedMessage("17", 1, 0, `{"event":"created"}`), failedMessage("17", 2, 0, `{"event":"paid"}`))
	b.run(triage.RunPlan{Action: triage.ActionKeep, Query: b.query("body.event:created")})
	b.run(triage.RunPlan{Action: triage.ActionReplay, Query: b.query("body.event:paid")})
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue, 1)
	kit.TakeAll(b.t, b.ch, queue)
	b.fill(failedMessage("17", 5000, 1, `{"event":"paid"}`)) // it fails again
	b.want(1, 1, map[string]int{"state:kept body.event:created": 1, "state:failed body.event:paid": 1})
	b.run(triage.RunPlan{Action: triage.ActionKeep, Query: b.query("body.event:paid state:failed")})
	b.want(2, 0, map[string]int{"state:kept body.event:created": 1, "state:kept body.event:paid": 1})
	b.run(triage.RunPlan{Action: triage.ActionRestore})
	b.want(0, 2, map[string]int{"state:failed": 2})
}

// Of two messages that are equal in every respect one is kept, whichever row stands for it. It stays kept.
func equalMessages(b *workbench) {
	for n := range 2 {
		same := failedMessage(fmt.Sprint("twin", n), 1, 0, `{"n":1}`)
		b.fill(same, same)
		all := b.found(fmt.Sprint("id:twin", n))
		if len(all) != 2 {
			b.t.Fatalf("got %+v, want 2 messages", all)
		}
		b.run(triage.RunPlan{Action: triage.ActionKeep, Refs: []string{all[n].Ref}})
	}
	b.reconcile()
	b.want(2, 2, map[string]int{"state:kept": 2, "state:failed": 2})
	b.run(triage.RunPlan{Action: triage.ActionReplay, Query: b.query("state:failed")})
	_, err := b.store.Clean(b.ctx, 0)
	b.must(err)
	b.want(2, 0, map[string]int{"state:kept": 2})
}

// A process cannot record that the broker has removed messages that it keeps, and the run is paused for longer than the retention. The contents stay in
// the store: they are nowhere else.
func notRecorded(b *workbench) {
	const n = 20
	b.fillMany(n)
	const function = "CREATE FUNCTION full_disk() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'disk full'; END $$ LANGUAGE plpgsql"
	for _, statement := range []string{function, "CREATE TRIGGER full_disk BEFORE UPDATE ON rehop_triage_run_item FOR EACH ROW WHEN (NEW.state = 2) EXECUTE FUNCTION full_disk()"} {
		_, err := b.db.ExecContext(b.ctx, statement)
		b.must(err)
	}
	r := b.start(triage.RunPlan{Action: triage.ActionKeep})
	end := b.work()
	b.until(r, "it cannot be recorded", func(r triage.Run) bool { return strings.Contains(r.Reason, "disk full") })
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue+".failed", 0)
	b.set(r, triage.Paused)
	end()
	_, err := b.db.ExecContext(b.ctx, "DROP TRIGGER full_disk ON rehop_triage_run_item")
	b.must(err)
	b.reconcile()
	_, err = b.store.Clean(b.ctx, 0)
	b.must(err)
	b.want(n, 0, map[string]int{"state:kept": n})
	b.set(r, triage.Running)
	end = b.work()
	r = b.ended(r)
	end()
	if want := (triage.RunCounts{Sent: n}); r.Counts != want {
		b.t.Errorf("the run, continued: got %+v, want %+v", r.Counts, want)
	}
	b.want(n, 0, map[string]int{"state:kept": n})
}

// A run waits for messages that a paused run was returning when its process lost the broker, and gets them when that one is stopped.
func stoppedRunReleases(b *workbench) {
	const n = 20
	b.fillMany(n)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	b.unplug()
	one := b.start(triage.RunPlan{Action: triage.ActionRestore})
	end := b.work()
	b.until(one, "messages are being sent", func(r triage.Run) bool { return r.Counts.Sending > 0 })
	b.set(one, triage.Paused)
	b.plug()
	two := b.start(triage.RunPlan{Action: triage.ActionRestore})
	b.until(two, "it waits for the other run", func(r triage.Run) bool { return strings.Contains(r.Reason, "another run is returning") })
	b.set(one, triage.Stopped)
	two = b.ended(two)
	end()
	if two.Counts.Sent != n {
		b.t.Errorf("got %+v, want %d sent", two.Counts, n)
	}
	b.want(0, n, nil)
}

// A canary over kept messages returns as many of them to the failed queue as it may send.
func canaryOfKept(b *workbench) {
	const n = 300
	b.fillMany(n)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	r := b.start(triage.RunPlan{Action: triage.ActionReplay, Canary: true})
	end := b.work()
	b.until(r, "it waits for the outcome of the first message", func(r triage.Run) bool { return r.Counts.Sent == 1 })
	b.want(n-1, 0, map[string]int{"state:kept": n - 1, "state:replayed": 1})
	b.set(r, triage.Stopped)
	b.ended(r)
	end()
}

// Replays that wait for outcomes do not keep other runs waiting.
func TestWaitingRunsLeaveRoom(t *testing.T) {
	t.Parallel()
	b := newWorkbench(t, lab.Embedded(t), lab.Postgres(t))
	b.fillMany(100)
	defer b.work()()
	for n := range 5 {
		all := b.found("state:failed")
		var refs []string
		for _, m := range all[:15] {
			refs = append(refs, m.Ref)
		}
		r := b.start(triage.RunPlan{Action: triage.ActionReplay, Canary: true, Refs: refs})
		b.until(r, fmt.Sprintf("replay %d waits", n), func(r triage.Run) bool { return r.Counts.Sent == 1 })
	}
	b.ended(b.start(triage.RunPlan{Action: triage.ActionDiscard, Refs: []string{b.found("state:failed")[0].Ref}}))
}

// A run has messages of two queues, and somebody else reads the first for long. Those of the second are sent.
func TestBusyQueueDelaysNoOther(t *testing.T) {
	t.Parallel()
	b := newWorkbench(t, lab.Embedded(t), lab.Postgres(t))
	client := kit.Open(t, rehop.Config{URL: b.URL})
	kit.Drain(t, kit.Subscribe(t, client, rehop.Subscriber{Queue: "zebras", Handler: kit.Nop}))
	other := failedMessage("z", 1, 0, "{}")
	other["queue"], other["key"] = "zebras", "zebras"
	b.fill(failedMessage("1", 1, 0, "{}"), other)
	_, err := b.service().Reconcile(b.ctx, "zebras.failed")
	b.must(err)
	reader, reading, release, ended := b.connect(), make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- reader.EachFailed(b.ctx, queue, 0, admin.Filter{}, func(admin.Message) error {
			close(reading)
			<-release
			return nil
		})
	}()
	kit.Receive(t, reading, "message that somebody else reads")
	r := b.start(triage.RunPlan{Action: triage.ActionReplay})
	end := b.work()
	kit.WantDepth(t, b.Rabbit, b.ch, "zebras", 1)
	close(release)
	b.must(kit.Receive(t, ended, "end of the reader"))
	b.ended(r)
	end()
	kit.WantDepth(t, b.Rabbit, b.ch, queue, 1)
}

// A message that has no record of its failure, as one that another program has moved, is the same one after it was kept.
func keptWithoutFailure(b *workbench) {
	b.must(b.ch.PublishWithContext(b.ctx, "", queue+".failed", true, false, amqp.Publishing{MessageId: "raw", Headers: amqp.Table{"tenant": "t-1"}, Body: []byte("{}")}))
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue+".failed", 1)
	b.reconcile()
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	b.run(triage.RunPlan{Action: triage.ActionRestore})
	b.reconcile()
	b.want(0, 1, map[string]int{"": 1, "state:failed queue:orders": 1})
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	if sent := b.run(triage.RunPlan{Action: triage.ActionReplay}); sent.Counts.Sent != 1 {
		b.t.Errorf("got %+v, want 1 sent", sent.Counts)
	}
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue, 1)
}

// One message with headers that are nested as deeply as can be read keeps no others out of the index, and stops no run.
func TestNestedHeaders(t *testing.T) {
	t.Parallel()
	for name, id := range map[string]string{"WithID": "deep", "WithoutID": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newWorkbench(t, lab.Single(t), lab.Postgres(t))
			deep := amqp.Table{"end": "x"}
			for range 31 { // the innermost table is the 32nd
				deep = amqp.Table{"t": deep}
			}
			b.must(b.ch.PublishWithContext(b.ctx, "", queue+".failed", true, false, amqp.Publishing{MessageId: id, Headers: amqp.Table{"deep": deep}, Body: []byte("{}")}))
			kit.WantDepth(t, b.Rabbit, b.ch, queue+".failed", 1)
			b.fillMany(10)
			if sent := b.run(triage.RunPlan{Action: triage.ActionReplay}); sent.Counts.Sent != 11 {
				t.Errorf("got %+v, want 11 messages sent", sent.Counts)
			}
			kit.WantDepth(t, b.Rabbit, b.ch, queue, 11)
		})
	}
}

// A message that is larger than a packet of MariaDB is refused, and stops no run.
func TestLargerThanAPacket(t *testing.T) {
	t.Parallel()
	b := newWorkbench(t, lab.Embedded(t), lab.MariaDB(t))
	var most int
	b.must(b.db.QueryRowContext(b.ctx, "SELECT @@max_allowed_packet").Scan(&most))
	b.must(b.ch.PublishWithContext(b.ctx, "", queue+".failed", true, false, amqp.Publishing{MessageId: "large", Body: make([]byte, most*4/5)}))
	b.must(b.ch.PublishWithContext(b.ctx, "", queue+".failed", true, false, amqp.Publishing{MessageId: "larger", Body: make([]byte, most)}))
	kit.WantDepth(t, b.Rabbit, b.ch, queue+".failed", 2)
	b.fill(failedMessage("small", 1, 0, "{}"))
	b.want(0, 3, map[string]int{"state:failed": 3})
	if m := b.found("id:larger")[0]; m.Size != most || !m.Partial {
		t.Errorf("got a size of %d and partial %v, want %d and true", m.Size, m.Partial, most)
	}
	r := b.run(triage.RunPlan{Action: triage.ActionKeep})
	if want := (triage.RunCounts{Sent: 1, Refused: 2}); r.Counts != want {
		t.Errorf("got %+v, want %+v", r.Counts, want)
	}
	items, err := b.store.RunItems(b.ctx, r.ID, triage.ItemRefused, triage.Page{})
	b.must(err)
	if len(items.Items) != 2 || !strings.Contains(items.Items[0].Reason, "max_allowed_packet") {
		t.Errorf("got %+v, want the message, and what to do", items)
	}
	b.want(1, 2, map[string]int{"state:kept": 1, "state:failed": 2})
}

// Replaying kept messages reads the others in their failed queue as often as a replay of messages that were not kept.
func TestReplayOfKeptReadsOnce(t *testing.T) {
	t.Parallel()
	b := newWorkbench(t, lab.Single(t), lab.Postgres(t))
	fillFailed(t, b.admin, 1500, 200)
	b.reconcile()
	b.run(triage.RunPlan{Action: triage.ActionKeep, Query: b.query("kind:timeout")})
	before := b.mostDeliveries()
	b.run(triage.RunPlan{Action: triage.ActionReplay, Query: b.query("kind:timeout")})
	if after := b.mostDeliveries(); after-before > 4 {
		t.Errorf("the others were delivered up to %d times for one replay, want at most 4", after-before)
	}
	kit.WantDepth(t, b.Rabbit, b.ch, queue, 1500)
}

// mostDeliveries is how often a message of the failed queue was delivered.
func (b *workbench) mostDeliveries() (most int64) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	ch := b.Channel()
	defer ch.Close()
	for {
		d, ok, err := ch.Get(queue+".failed", false)
		b.must(err)
		if !ok || ctx.Err() != nil {
			return most
		}
		for _, name := range []string{"x-delivery-count", "x-acquired-count"} {
			if n, ok := d.Headers[name].(int64); ok {
				most = max(most, n)
			}
		}
	}
}
