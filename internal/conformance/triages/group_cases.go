package triages

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop/triage"
)

func groupCases() []Case {
	return []Case{
		{"Causes", func(t *testing.T, b *Bench) {
			one, two, other := failed("1", 30), failed("2", 20), failed("3", 10)
			one.Error, two.Error, other.Error = "order 17: dial tcp 10.0.0.1:5: refused", "order 4: dial tcp 10.0.0.2:6: refused", "order 5: not found"
			two.Host, other.Version = "web-2", "v9"
			b.put(one, two, other)
			groups := b.groups()
			if len(groups) != 2 {
				t.Fatalf("got %d groups, want 2: %+v", len(groups), groups)
			}
			g := groups[1]
			equal(b, "title", g.Title, "order <n>: dial tcp <address>: refused")
			equal(b, "sample", g.Sample, two.Error)
			equal(b, "counts", g.Counts, triage.Counts{Failed: 2})
			equal(b, "first seen", g.FirstSeen, one.FailedAt)
			equal(b, "last seen", g.LastSeen, two.FailedAt)
			equal(b, "hosts", g.Hosts, []string{"web-2", "web-1"})
			equal(b, "versions", groups[0].Versions, []string{"v9"})
			equal(b, "messages of the group", ids(b.search("group:"+g.ID[:6])), []string{"2", "1"})
			equal(b, "state", g.State, triage.GroupOpen)
			again, err := b.Store.Group(b.ctx, g.ID)
			b.must(err)
			equal(b, "by its ID", again, g)
			if _, err := b.Store.Group(b.ctx, "0123"); !errors.Is(err, triage.ErrNotFound) {
				t.Errorf("got %v, want ErrNotFound", err)
			}
		}},
		{"States", groupStates},
		{"Bounded", func(t *testing.T, b *Bench) {
			for i := range 30 {
				m := failed(fmt.Sprint(i), 100-i)
				m.Host = fmt.Sprintf("web-%d", i)
				b.put(m)
			}
			g := b.groups()[0]
			if len(g.Hosts) != 20 || g.Hosts[0] != "web-29" || g.Hosts[19] != "web-10" {
				t.Errorf("hosts: got %q, want the last 20, newest first", g.Hosts)
			}
		}},
		{"Lists", func(t *testing.T, b *Bench) {
			for i := range 7 {
				for n := range i%3 + 1 {
					m := failed(fmt.Sprintf("%d-%d", i, n), 10*i)
					m.Queue, m.Error = fmt.Sprintf("q%d", i%2), fmt.Sprintf("cause %c", 'a'+i)
					b.put(m)
				}
			}
			for order, want := range map[triage.GroupOrder]string{triage.ByLastSeen: "abcdefg", triage.ByFailed: "fcebgda"} {
				got := ""
				filter := triage.GroupFilter{Order: order, Limit: 2}
				for {
					page, err := b.Store.Groups(b.ctx, filter)
					b.must(err)
					for _, g := range page.Groups {
						got += g.Title[len(g.Title)-1:]
					}
					if filter.After = page.Next; page.Next == "" {
						break
					}
				}
				equal(b, "order "+string(order), got, want)
			}
			page, err := b.Store.Groups(b.ctx, triage.GroupFilter{Queue: "q1", States: []triage.GroupState{triage.GroupOpen}})
			b.must(err)
			equal(b, "groups of a queue", len(page.Groups), 3)
			for _, filter := range []triage.GroupFilter{{States: []triage.GroupState{"lost"}}, {Order: "size"}, {After: "?"}} {
				if _, err := b.Store.Groups(b.ctx, filter); err == nil {
					t.Errorf("%+v: got nil, want an error", filter)
				}
			}
		}},
		{"History", func(t *testing.T, b *Bench) {
			other := failed("4", 61)
			other.Error = "other"
			b.put(failed("1", 1), failed("2", 59), failed("3", 61), other)
			hour := noon.Add(-time.Hour)
			bars, err := b.Store.History(b.ctx, "", noon.Add(-24*time.Hour))
			b.must(err)
			equal(b, "all groups", bars, []triage.Bar{{Hour: hour.Add(-time.Hour), Failures: 2}, {Hour: hour, Failures: 2}})
			bars, err = b.Store.History(b.ctx, b.only("id:4").Group, noon.Add(-24*time.Hour))
			b.must(err)
			equal(b, "one group", bars, []triage.Bar{{Hour: hour.Add(-time.Hour), Failures: 1}})
			again := failed("3", 2)
			again.Replays = 1
			b.put(again, again)
			bars, err = b.Store.History(b.ctx, "", hour)
			b.must(err)
			equal(b, "after another failure of the same message", bars, []triage.Bar{{Hour: hour, Failures: 3}})
		}},
		{"Regroup", regroup},
	}
}

// groupStates: what operators decide stays, and a failure after the cause was fixed is noticed.
func groupStates(t *testing.T, b *Bench) {
	b.put(failed("1", 60))
	id := b.groups()[0].ID
	set := func(state triage.GroupState) triage.Group {
		t.Helper()
		g, err := b.Store.SetGroup(b.ctx, id, triage.GroupChange{State: &state}, "ann")
		b.must(err)
		return g
	}
	state := func() triage.GroupState { return b.groups()[0].State }
	later := func(name string) {
		m := failed(name, 0)
		m.FailedAt = time.Now().Add(time.Minute)
		b.put(m)
	}
	for _, stays := range []triage.GroupState{triage.Ignored, triage.Acknowledged, triage.GroupOpen} {
		equal(b, "set", set(stays).State, stays)
		later("after " + string(stays))
		equal(b, "state after a failure", state(), stays)
	}
	set(triage.Resolved)
	b.put(failed("old", 30))
	equal(b, "state after a failure from before it was resolved", state(), triage.Resolved)
	later("new")
	equal(b, "state after a failure since", state(), triage.Regressed)
	assignee, note, wrong := "bob", "see runbook", triage.Regressed
	g, err := b.Store.SetGroup(b.ctx, id, triage.GroupChange{Assignee: &assignee, Note: &note}, "ann")
	b.must(err)
	equal(b, "state", g.State, triage.Regressed)
	g, err = b.Store.Group(b.ctx, id)
	b.must(err)
	equal(b, "assignee and note", g.Assignee+" "+g.Note, "bob see runbook")
	if _, err := b.Store.SetGroup(b.ctx, id, triage.GroupChange{State: &wrong}, "ann"); err == nil {
		t.Error("the state was set to regressed, want an error")
	}
	if _, err := b.Store.SetGroup(b.ctx, "0123456789abcdef", triage.GroupChange{Note: &note}, "ann"); !errors.Is(err, triage.ErrNotFound) {
		t.Errorf("unknown group: got %v, want ErrNotFound", err)
	}
	records, err := b.Store.AuditRecords(b.ctx, 0, 100)
	b.must(err)
	equal(b, "records of the audit", len(records), 5)
	equal(b, "last record", string(records[0].Details), `{"assignee":["","bob"],"note":["","see runbook"]}`)
}

// regroup: a new grouping splits and joins groups, which keep what was decided.
func regroup(t *testing.T, b *Bench) {
	var all []triage.Message
	for i := range 450 {
		m := failed(fmt.Sprint(i), i%120)
		m.Error = fmt.Sprintf("cause %c", 'a'+i%3)
		m.Key = fmt.Sprintf("key.%d", i%2)
		all = append(all, m)
	}
	b.put(all...)
	again := failed("0", 0)
	again.Error, again.Key, again.Replays = "cause a", "key.0", 1
	b.put(again)
	decide := func(title string, state triage.GroupState, note string) {
		for _, g := range b.groups() {
			if g.Title == title {
				_, err := b.Store.SetGroup(b.ctx, g.ID, triage.GroupChange{State: &state, Note: &note}, "ann")
				b.must(err)
			}
		}
	}
	decide("cause a", triage.Resolved, "fixed")
	decide("cause b", triage.Acknowledged, "looking")
	before, err := b.Store.History(b.ctx, "", noon.Add(-48*time.Hour))
	b.must(err)
	b.Store = b.open(triage.Config{Grouping: triage.Grouping{Version: 2, Of: func(m *triage.Message) string {
		if m.Error == "cause c" {
			return "c of " + m.Key // split
		}
		return "a or b" // joined
	}}})
	moved, err := b.Store.Regroup(b.ctx)
	b.must(err)
	equal(b, "moved", moved, 450)
	moved, err = b.Store.Regroup(b.ctx)
	b.must(err)
	equal(b, "moved again", moved, 0)
	b.check()
	byTitle := make(map[string]triage.Group)
	for _, g := range b.groups() {
		byTitle[g.Title] = g
	}
	equal(b, "groups", len(byTitle), 3)
	equal(b, "joined", byTitle["a or b"].State, triage.Acknowledged)
	equal(b, "messages of the joined", byTitle["a or b"].Counts.Failed, 300)
	if note := byTitle["a or b"].Note; note != "fixed\nlooking" && note != "looking\nfixed" {
		t.Errorf("note: got %q, want both", note)
	}
	equal(b, "messages of a part", byTitle["c of key.1"].Counts.Failed, 75)
	found, _ := b.searchAll("group:"+byTitle["c of key.0"].ID, 100)
	equal(b, "found by the new group", len(found), 75)
	after, err := b.Store.History(b.ctx, "", noon.Add(-48*time.Hour))
	b.must(err)
	equal(b, "history", after, before)
}
