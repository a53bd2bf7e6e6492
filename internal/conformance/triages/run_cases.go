package triages

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/triage"
)

func runCases() []Case {
	return []Case{
		{"Counted", func(t *testing.T, b *Bench) {
			for i := range 4 {
				b.put(failed(fmt.Sprint(i), i))
			}
			b.set("3", triage.Discarded)
			for query, want := range map[string]int{"": 3, `"connection refused"`: 3, "id:1": 1, "id:3": 0, "nowhere": 0, "group:0 group:1": 0} {
				equal(b, "counted by "+query, b.countRun(triage.RunPlan{Action: triage.ActionDiscard, Query: b.query(query)}).Messages, want)
			}
			equal(b, "to restore", b.countRun(triage.RunPlan{Action: triage.ActionRestore}).Messages, 1)
			refs := []string{b.only("id:0").Ref, b.only("id:3").Ref}
			equal(b, "by their Refs", b.countRun(triage.RunPlan{Action: triage.ActionReplay, Refs: refs}).Messages, 1)
			if _, err := b.Store.CountRun(b.ctx, triage.RunPlan{Action: "explode"}); err == nil {
				t.Error("an unknown action: got nil, want an error")
			}
			runs, err := b.Store.Runs(b.ctx, triage.RunFilter{})
			b.must(err)
			equal(b, "runs", len(runs), 0)
		}},
		// A run has no messages that were not counted: neither new ones, nor those that have failed again.
		{"UpTo", func(t *testing.T, b *Bench) {
			for i := range 3 {
				b.put(failed(fmt.Sprint(i), i+10))
			}
			for _, query := range []string{"queue:orders", `"connection refused"`} {
				plan := triage.RunPlan{Action: triage.ActionReplay, Query: b.query(query), Actor: "ann"}
				plan.UpTo = b.countRun(plan).At
				again := failed("0", 5)
				again.Replays = b.only("id:0").Replays + 1
				b.put(failed("new "+query, 20), again)
				run, err := b.Store.StartRun(b.ctx, plan)
				b.must(err)
				items, err := b.Store.RunItems(b.ctx, run.ID, "", triage.Page{})
				b.must(err)
				for _, item := range items.Items {
					if m, err := b.Store.Message(b.ctx, item.Ref); err != nil || m.ID != "1" && m.ID != "2" && m.ID != "new queue:orders" {
						t.Errorf("%s: got message %q (%v) in the run, want only those that were counted", query, m.ID, err)
					}
				}
				equal(b, "messages of the run", len(items.Items), len(b.search(""))-2)
			}
			if _, err := b.Store.StartRun(b.ctx, triage.RunPlan{Action: triage.ActionReplay, Actor: "ann", UpTo: noon.AddDate(-1, 0, 0)}); !errors.Is(err, triage.ErrNothingToDo) {
				t.Errorf("up to a time before everything: got %v, want ErrNothingToDo", err)
			}
		}},
		// A run has exactly the messages that were counted, whether the database decides alone which they are or their text is read.
		{"Fixed", func(t *testing.T, b *Bench) {
			for i := range 30 {
				m := failed(fmt.Sprint(i), i)
				m.Headers = map[string]any{"tenant": fmt.Sprint("t-", i%3)}
				b.put(m)
			}
			b.set("4", triage.Discarded)
			for query, want := range map[string]int{"": 29, "header.tenant:t-1": 9, "header.tenant:t-1 -id:7": 8, "queue:orders kind:error header.tenant:t-0": 10, `"connection refused"`: 29, "state:failed refused -header.tenant:t-2": 19} {
				run, err := b.Store.StartRun(b.ctx, triage.RunPlan{Action: triage.ActionReplay, Query: b.query(query), Actor: "ann"})
				b.must(err)
				items, err := b.Store.RunItems(b.ctx, run.ID, triage.ItemPlanned, triage.Page{})
				b.must(err)
				equal(b, "planned by "+query, run.Counts, triage.RunCounts{Planned: want})
				equal(b, "messages by "+query, len(items.Items), want)
			}
		}},
		// A message that fails immediately after the others were counted is later than they are, whatever the clock can distinguish.
		{"UpToNow", func(t *testing.T, b *Bench) {
			for i := range b.Rounds {
				b.put(failed(fmt.Sprint("n", i), i))
				plan := triage.RunPlan{Action: triage.ActionReplay, Actor: "ann"}
				plan.UpTo = b.countRun(plan).At
				b.put(failed(fmt.Sprint("later", i), i))
				run, err := b.Store.StartRun(b.ctx, plan)
				b.must(err)
				equal(b, "messages of the run", run.Counts.Total(), 2*i+1)
			}
		}},
		// The database's clock was an hour ahead, and was set back. What fails now is later than what has failed before.
		{"UpToClockSetBack", func(t *testing.T, b *Bench) {
			b.put(failed("old", 1))
			for _, column := range []string{"turn SET turn = turn", "message SET changed = changed"} {
				b.exec("UPDATE rehop_triage_" + column + " + 3600000000")
			}
			for _, query := range []string{"queue:orders", `"connection refused"`} {
				plan := triage.RunPlan{Action: triage.ActionReplay, Query: b.query(query), Actor: "ann"}
				count := b.countRun(plan)
				plan.UpTo = count.At
				b.put(failed("new "+query, 2))
				run, err := b.Store.StartRun(b.ctx, plan)
				b.must(err)
				equal(b, "messages of the run by "+query, run.Counts.Total(), count.Messages)
			}
		}},
		// A message that was selected has failed again since it was counted, with another error.
		{"UpToRefs", func(t *testing.T, b *Bench) {
			b.put(failed("1", 1), failed("2", 2))
			plan := triage.RunPlan{Action: triage.ActionDiscard, Refs: []string{b.only("id:1").Ref, b.only("id:2").Ref}, Actor: "ann"}
			plan.UpTo = b.countRun(plan).At
			again := failed("1", 5)
			again.Replays, again.Error = 1, "another one"
			b.put(again)
			equal(b, "failures of the message", b.only("id:1").Replays, 1)
			run, err := b.Store.StartRun(b.ctx, plan)
			b.must(err)
			items, err := b.Store.RunItems(b.ctx, run.ID, "", triage.Page{})
			b.must(err)
			equal(b, "messages of the run", len(items.Items), 1)
			equal(b, "the message of the run", items.Items[0].Ref, plan.Refs[1])
			plan.Refs = plan.Refs[:1]
			if _, err := b.Store.StartRun(b.ctx, plan); !errors.Is(err, triage.ErrNothingToDo) {
				t.Errorf("only the one that has failed again: got %v, want ErrNothingToDo", err)
			}
		}},
		// A plan that is confirmed twice, also at the same time, is one run.
		{"Twice", func(t *testing.T, b *Bench) {
			b.put(failed("1", 1))
			plan := triage.RunPlan{ID: triage.NewRunID(), Action: triage.ActionReplay, Actor: "ann"}
			var starting sync.WaitGroup
			for range 4 {
				starting.Go(func() {
					if run, err := b.Store.StartRun(b.ctx, plan); err != nil || run.ID != plan.ID || run.Counts.Planned != 1 {
						t.Errorf("got %+v, %v, want the run %s", run, err, plan.ID)
					}
				})
			}
			starting.Wait()
			runs, err := b.Store.Runs(b.ctx, triage.RunFilter{})
			b.must(err)
			equal(b, "runs", len(runs), 1)
			records, err := b.Store.AuditRecords(b.ctx, 0, 10)
			b.must(err)
			equal(b, "records of the audit", len(records), 1)
			plan.ID = "my run"
			if _, err := b.Store.StartRun(b.ctx, plan); err == nil {
				t.Error("an ID that is not from NewRunID: got nil, want an error")
			}
		}},
		// Messages that are sent to a queue of rehop itself would be deleted there.
		{"Target", func(t *testing.T, b *Bench) {
			b.put(failed("1", 1))
			for _, to := range []string{"rehop.triage", "rehop.orphans", "rehop.", "orders.failed"} {
				plan := triage.RunPlan{Action: triage.ActionReplay, Actor: "ann", To: to}
				if run, err := b.Store.StartRun(b.ctx, plan); !errors.Is(err, admin.ErrTarget) {
					t.Errorf("to %s: got %+v, %v, want ErrTarget", to, run, err)
				}
				if _, err := b.Store.CountRun(b.ctx, plan); to != "orders.failed" && !errors.Is(err, admin.ErrTarget) {
					t.Errorf("counted, to %s: got %v, want ErrTarget", to, err)
				}
			}
			_, err := b.Store.StartRun(b.ctx, triage.RunPlan{Action: triage.ActionReplay, Actor: "ann", To: "rehops"})
			b.must(err)
		}},
		// A low rate must not become 0, which is no limit.
		{"Millionths", func(t *testing.T, b *Bench) {
			b.put(failed("1", 1))
			for given, want := range map[float64]float64{1.0 / 3600: 0.000278, 1e-9: 1e-6, 0.1: 0.1, 0.7: 0.7, 0: 0, 1: 1} {
				run, err := b.Store.StartRun(b.ctx, triage.RunPlan{Action: triage.ActionReplay, Actor: "ann", Rate: given, StopAbove: given})
				b.must(err)
				equal(b, fmt.Sprintf("rate of %g", given), run.Rate, want)
				equal(b, fmt.Sprintf("share of %g", given), run.StopAbove, want)
			}
			run, err := b.Store.StartRun(b.ctx, triage.RunPlan{Action: triage.ActionReplay, Actor: "ann", Rate: 1_000_000})
			b.must(err)
			equal(b, "highest rate", run.Rate, 1_000_000)
		}},
		// What the index does not have of a large message is reported.
		{"CountedNotWhole", func(t *testing.T, b *Bench) {
			large := failed("large", 1)
			large.Body = nil
			for i := range 10_000 {
				large.Body = fmt.Appendf(large.Body, "word%d ", i)
			}
			b.put(large, failed("small", 2))
			equal(b, "not whole", b.countRun(triage.RunPlan{Action: triage.ActionReplay, Query: b.query("refused")}).NotWhole, 1)
			equal(b, "not whole, without words", b.countRun(triage.RunPlan{Action: triage.ActionReplay, Query: b.query("queue:orders")}).NotWhole, 0)
		}},
	}
}

// countRun counts the messages of a run.
func (b *Bench) countRun(plan triage.RunPlan) triage.RunCount {
	b.t.Helper()
	plan.Actor = "ann"
	count, err := b.Store.CountRun(b.ctx, plan)
	b.must(err)
	return count
}

func (b *Bench) query(text string) triage.Query {
	b.t.Helper()
	q, err := triage.ParseQuery(text, noon)
	b.must(err)
	return q
}
