//go:build !race

package triaging

import (
	"fmt"
	"testing"
	"time"

	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/triage"
)

// After a change of the grouping's version, a service groups the messages again, and the groups keep what operators have decided. Those of a newer version
// stay.
func TestSQLiteServiceRegroups(t *testing.T) {
	t.Parallel()
	d := openSQLite(t)
	version := func(n int) *triage.Store {
		t.Helper()
		store, err := triage.Open(t.Context(), triage.Config{DB: d.Open(t), Dialect: dialect.SQLite, Grouping: triage.Grouping{Version: n, Of: func(m *triage.Message) string {
			return fmt.Sprintf("%s by version %d", m.Error, n)
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	const n = 450 // more than one step
	put := func(store *triage.Store, cause string) {
		t.Helper()
		var all []triage.Message
		for i := range n {
			all = append(all, triage.Message{ID: fmt.Sprint(cause, i), Queue: queue, FailedQueue: queue + ".failed", Error: cause, FailedAt: time.Unix(int64(i), 0)})
		}
		if err := store.Put(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	c := newScene(t, setting{rabbit: lab.Embedded(t), database: d, dialect: dialect.SQLite, silent: true, change: func(s *triage.ServiceConfig) {
		put(version(1), "old")
		page, err := s.Store.Groups(t.Context(), triage.GroupFilter{})
		if err != nil || len(page.Groups) != 1 {
			t.Fatalf("got %+v, %v, want a group", page, err)
		}
		note, state := "see INC-17", triage.Acknowledged
		if _, err := s.Store.SetGroup(t.Context(), page.Groups[0].ID, triage.GroupChange{State: &state, Note: &note}, "ann"); err != nil {
			t.Fatal(err)
		}
		put(version(3), "new")
		s.Store = version(2)
	}})
	group := func(title string) (found triage.Group) {
		t.Helper()
		page, err := c.store.Groups(c.ctx, triage.GroupFilter{})
		c.must(err)
		for _, g := range page.Groups {
			if g.Title == title {
				found = g
			}
		}
		return found
	}
	c.eventually("the messages are in a group of the new version", func() bool { return group("old by version 2").Counts.Total() == n })
	if g := group("old by version 2"); g.State != triage.Acknowledged || g.Note != "see INC-17" {
		t.Errorf("got %+v, want the state and the note of the group before", g)
	}
	if g := group("new by version 3"); g.Counts.Total() != n {
		t.Errorf("got %+v, want the group of a newer version with all its messages", g)
	}
	c.check()
}
