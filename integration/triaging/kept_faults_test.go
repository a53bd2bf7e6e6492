package triaging

import (
	"strings"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/triage"
)

// exec changes the database, as faults do.
func (b *workbench) exec(text string, args ...any) {
	b.t.Helper()
	_, err := b.db.ExecContext(b.ctx, text, args...)
	b.must(err)
}

// The retention of messages ends while a restore waits for the broker, also if the run is paused. Their contents are nowhere else, and stay.
func cleanedDuringRestore(b *workbench) {
	const n = 20
	b.fillMany(n)
	b.run(triage.RunPlan{Action: triage.ActionDiscard})
	b.unplug()
	r := b.start(triage.RunPlan{Action: triage.ActionRestore})
	clean := func() {
		b.t.Helper()
		_, err := b.store.Clean(b.ctx, 0)
		b.must(err)
		b.want(n, 0, map[string]int{"state:discarded": n})
	}
	clean() // they are planned
	end := b.work()
	b.until(r, "messages are being returned", func(r triage.Run) bool { return r.Counts.Sending > 0 })
	clean()
	b.set(r, triage.Paused)
	clean()
	b.plug()
	b.set(r, triage.Running)
	r = b.ended(r)
	end()
	if want := (triage.RunCounts{Sent: n}); r.Counts != want {
		b.t.Errorf("got %+v, want %+v", r.Counts, want)
	}
	b.want(0, n, map[string]int{"state:failed": n})
	b.run(triage.RunPlan{Action: triage.ActionDiscard})
	_, err := b.store.Clean(b.ctx, 0) // no run waits for them
	b.must(err)
	b.want(0, 0, map[string]int{"": 0})
}

// A restore does not report messages as sent whose contents were lost while it was returning them.
func restoreWithoutContents(b *workbench) {
	b.fillMany(3)
	b.run(triage.RunPlan{Action: triage.ActionDiscard})
	b.unplug()
	r := b.start(triage.RunPlan{Action: triage.ActionRestore})
	end := b.work()
	b.until(r, "messages are being returned", func(r triage.Run) bool { return r.Counts.Sending > 0 })
	b.exec("DELETE FROM rehop_triage_kept")
	b.plug()
	r = b.ended(r)
	end()
	if want := (triage.RunCounts{Gone: 3}); r.Counts != want {
		b.t.Errorf("got %+v, want %+v", r.Counts, want)
	}
	b.want(0, 0, map[string]int{"state:failed": 0, "state:discarded": 3})
}

// The database takes what is small, and not the record that messages are back in their failed queue. They are not returned once more.
func restoreNotRecorded(b *workbench) {
	r, end := b.restoreUnrecorded()
	b.exec("DROP TRIGGER on_delete ON rehop_triage_kept")
	r = b.ended(r)
	end()
	if want := (triage.RunCounts{Sent: 3}); r.Counts != want {
		b.t.Errorf("got %+v, want %+v", r.Counts, want)
	}
	b.reconcile() // a comparison may have counted those in the store and those in the queue
	b.want(0, 3, map[string]int{"state:failed": 3})
}

// The same if the run is paused meanwhile, and continued later.
func restoreNotRecordedPaused(b *workbench) {
	r, end := b.restoreUnrecorded()
	b.set(r, triage.Paused)
	b.exec("DROP TRIGGER on_delete ON rehop_triage_kept")
	b.until(r, "it is recorded", func(r triage.Run) bool { return r.Counts.Sent == 3 })
	b.set(r, triage.Running)
	b.ended(r)
	end()
	b.reconcile() // a comparison may have counted those in the store and those in the queue
	b.want(0, 3, map[string]int{"state:failed": 3})
}

// restoreUnrecorded restores 3 messages with a database that cannot record it.
func (b *workbench) restoreUnrecorded() (r triage.Run, end func()) {
	b.t.Helper()
	b.fillMany(3)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	b.onDelete("RAISE EXCEPTION 'disk full'")
	r = b.start(triage.RunPlan{Action: triage.ActionRestore})
	end = b.work()
	b.until(r, "it cannot be recorded", func(r triage.Run) bool { return strings.Contains(r.Reason, "disk full") })
	return r, end
}

// onDelete makes PostgreSQL run a statement before it deletes the contents of a message.
func (b *workbench) onDelete(statement string) {
	b.t.Helper()
	b.exec("CREATE FUNCTION on_delete() RETURNS trigger AS $$ BEGIN " + statement + "; RETURN OLD; END $$ LANGUAGE plpgsql")
	b.exec("CREATE TRIGGER on_delete BEFORE DELETE ON rehop_triage_kept FOR EACH ROW EXECUTE FUNCTION on_delete()")
}

// The database does not answer while a service records what it has done. The service ends, and the next one repeats what is not recorded.
func endWithoutDatabase(b *workbench) {
	b.fillMany(3)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	b.onDelete("PERFORM pg_advisory_xact_lock(1)")
	lock, err := b.db.Conn(b.ctx)
	b.must(err)
	_, err = lock.ExecContext(b.ctx, "SELECT pg_advisory_lock(1)")
	b.must(err)
	r := b.start(triage.RunPlan{Action: triage.ActionRestore})
	end := b.work()
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue+".failed", 3)
	ended := make(chan struct{})
	go func() {
		end()
		close(ended)
	}()
	kit.Receive(b.t, ended, "end of the service")
	_, err = lock.ExecContext(b.ctx, "SELECT pg_advisory_unlock(1)")
	b.must(err)
	b.must(lock.Close())
	end = b.work()
	r = b.ended(r)
	end()
	if want := (triage.RunCounts{Sent: 3}); r.Counts != want {
		b.t.Errorf("got %+v, want %+v", r.Counts, want)
	}
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue+".failed", 6)
}

// A canary over kept messages whose process was killed while it returned the first one returns that one, and not all.
func canaryKilled(b *workbench) {
	const n = 300
	b.fillMany(n)
	b.run(triage.RunPlan{Action: triage.ActionKeep})
	r := b.start(triage.RunPlan{Action: triage.ActionReplay, Canary: true})
	const last, first = "(SELECT MAX(number) FROM rehop_triage_run)", "(SELECT MIN(lineage::text)::bytea FROM rehop_triage_kept)"
	b.exec("UPDATE rehop_triage_run_item SET state = 1 WHERE run_number = " + last + " AND lineage = " + first)
	b.exec("UPDATE rehop_triage_kept SET run = " + last + " WHERE lineage = " + first)
	b.exec("UPDATE rehop_triage_run SET planned = planned - 1, sending = 1 WHERE number = " + last)
	end := b.work()
	b.until(r, "it waits for the outcome of the first message", func(r triage.Run) bool { return r.Counts.Sent == 1 })
	if kept := len(b.found("state:kept")); kept < n-2 {
		b.t.Errorf("the canary has sent 1 message, and %d of %d are in the store, want %d or more", kept, n, n-2)
	}
	b.set(r, triage.Stopped)
	b.ended(r)
	end()
	b.must(b.store.Check(b.ctx))
}

// interruptedKeep starts a run that keeps the message with a Ref, and is interrupted when it has stored the contents, before it takes the message out of its
// queue: it is the first one in it.
func (b *workbench) interruptedKeep(ref string) triage.Run {
	b.t.Helper()
	r := b.start(triage.RunPlan{Action: triage.ActionKeep, Refs: []string{ref}})
	b.set(r, triage.Paused)
	var line []byte
	b.must(b.admin.EachFailed(b.ctx, queue, 1, admin.Filter{}, func(m admin.Message) (err error) {
		line, err = b.admin.ExportLine(queue, m)
		return err
	}))
	const last = "(SELECT MAX(number) FROM rehop_triage_run)"
	b.exec("INSERT INTO rehop_triage_kept (lineage, ordinal, state, run, line) SELECT lineage, ordinal, 1, 0, $1 FROM rehop_triage_run_item WHERE run_number = "+last, line)
	b.interruptSending()
	return r
}

// interruptSending leaves the last run as after a kill while it was sending its message.
func (b *workbench) interruptSending() {
	b.t.Helper()
	const last = "(SELECT MAX(number) FROM rehop_triage_run)"
	b.exec("UPDATE rehop_triage_run_item SET state = 1, sent_id = 'x' WHERE run_number = " + last)
	b.exec("UPDATE rehop_triage_run SET planned = 0, sending = 1 WHERE number = " + last)
}

// takeOne takes the first message out of the failed queue.
func (b *workbench) takeOne() {
	b.t.Helper()
	if _, ok, err := b.ch.Get(queue+".failed", true); err != nil || !ok {
		b.t.Fatalf("got %v, %v, want a message in the failed queue", ok, err)
	}
}

// A message is replayed whose contents an interrupted run has stored. When it has failed again, and was discarded without rehop's index, it is gone: the old
// contents do not make it a kept message.
func copyOfReplayed(b *workbench) {
	b.fillMany(1)
	keep := b.interruptedKeep(b.found("")[0].Ref)
	b.run(triage.RunPlan{Action: triage.ActionReplay})
	b.want(0, 0, map[string]int{"state:replayed": 1})
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue, 1)
	kit.TakeAll(b.t, b.ch, queue)
	b.fill(failedMessage("0", 5000, 1, `{"order":0}`)) // it fails again
	b.want(0, 1, map[string]int{"": 1, "state:failed": 1})
	_, err := b.admin.Discard(b.ctx, queue, admin.Options{})
	b.must(err)
	b.reconcile()
	b.set(keep, triage.Running)
	end := b.work()
	b.ended(keep)
	end()
	b.want(0, 0, map[string]int{"": 1, "state:gone": 1})
}

// Of two messages that are equal in every respect a run has taken one out of the queue, and could not record it. The other one is replayed. The contents
// of the first are nowhere else, and stay.
func copyOfEqual(b *workbench) {
	same := failedMessage("twin", 1, 0, `{"n":1}`)
	b.fill(same, same)
	for _, m := range b.found("") {
		if !strings.Contains(m.Ref, "-") {
			b.interruptedKeep(m.Ref)
			b.takeOne()
			b.run(triage.RunPlan{Action: triage.ActionReplay, Refs: []string{m.Ref}})
		}
	}
	b.want(1, 0, nil)
	kit.WantDepth(b.t, b.Rabbit, b.ch, queue, 1)
}

// A run has taken a message out of the queue, and could not record it. Another message with the same id fails after a replay. The first one is kept.
func copyOfReusedID(b *workbench) {
	b.fill(failedMessage("17", 1, 0, `{"event":"created"}`))
	b.interruptedKeep(b.found("")[0].Ref)
	b.takeOne()
	b.fill(failedMessage("17", 5000, 1, `{"event":"paid"}`))
	b.want(1, 1, map[string]int{"state:kept body.event:created": 1, "state:failed body.event:paid": 1})
}

// A run that keeps a message and a replay of it were both interrupted, and the message is not in its queue any more. The contents may be nowhere else, so
// the message is kept, and does not seem to be replayed.
func copyAfterKill(b *workbench) {
	b.checkEvery = time.Hour // no comparison finds out before the replay does
	b.fillMany(1)
	b.interruptedKeep(b.found("")[0].Ref)
	replay := b.start(triage.RunPlan{Action: triage.ActionReplay})
	b.interruptSending()
	b.takeOne()
	end := b.work()
	b.ended(replay)
	end()
	b.want(1, 0, map[string]int{"": 1, "state:kept": 1})
}

// A transaction that has its turn takes longer than the lease, as one that fixes the set of a large run. The process that works renews its lease meanwhile.
func longTransaction(b *workbench) {
	defer b.work()()
	owner, expires := b.lease(0)
	tx, err := b.db.BeginTx(b.ctx, nil)
	b.must(err)
	defer tx.Rollback()
	_, err = tx.ExecContext(b.ctx, "UPDATE rehop_triage_turn SET turn = turn + 1")
	b.must(err)
	if now, _ := b.lease(expires + 4_000_000); now != owner {
		b.t.Error("another process has the lease")
	}
}

// Of two messages that are equal in every respect a run has taken one out of the queue, and its process was killed before it could record that. The other one is
// not taken for it, neither when the run is continued nor when it is stopped.
func equalContinued(b *workbench) { b.equalAfterKill(triage.Running) }
func equalStopped(b *workbench)   { b.equalAfterKill(triage.Stopped) }

func (b *workbench) equalAfterKill(then triage.RunState) {
	b.t.Helper()
	b.checkEvery = time.Hour // no comparison finds out before the run does
	same := failedMessage("twin", 1, 0, `{"n":1}`)
	b.fill(same, same)
	r := b.interruptedKeep(b.found("")[0].Ref)
	b.takeOne()
	b.set(r, then)
	end := b.work()
	b.ended(r)
	end()
	b.want(1, 1, nil)
	b.reconcile()
	b.want(1, 1, map[string]int{"state:kept": 1, "state:failed": 1})
}

// A run is to take one of several messages that are equal in every respect. As long as the database does not record that it has taken one, it takes no other.
func equalKeepNotRecorded(b *workbench)    { b.equalNotRecorded(triage.ActionKeep, 1) }
func equalDiscardNotRecorded(b *workbench) { b.equalNotRecorded(triage.ActionDiscard, 1) }
func equalReplayNotRecorded(b *workbench)  { b.equalNotRecorded(triage.ActionReplay, 0) }

func (b *workbench) equalNotRecorded(action triage.Action, stored int) {
	b.t.Helper()
	b.checkEvery = time.Hour
	same := failedMessage("twin", 1, 0, `{"n":1}`)
	b.fill(same, same, same, same, same)
	b.exec("CREATE FUNCTION on_sent() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION 'disk full'; END $$ LANGUAGE plpgsql")
	b.exec("CREATE TRIGGER on_sent BEFORE UPDATE ON rehop_triage_run_item FOR EACH ROW WHEN (NEW.state = 2) EXECUTE FUNCTION on_sent()")
	r := b.start(triage.RunPlan{Action: action, Refs: []string{b.found("")[0].Ref}})
	end := b.work()
	b.until(r, "it cannot be recorded", func(r triage.Run) bool { return strings.Contains(r.Reason, "disk full") })
	b.exec("DROP TRIGGER on_sent ON rehop_triage_run_item")
	b.ended(r)
	end()
	b.want(stored, 4, nil)
	b.reconcile()
	b.want(stored, 4, map[string]int{"state:failed": 4})
}
