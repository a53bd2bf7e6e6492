package triages

import (
	"errors"
	"fmt"
	"testing"

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
