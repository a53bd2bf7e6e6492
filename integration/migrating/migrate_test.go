package migrating

import (
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// Each change of a queue, while publishers publish all the time.
func TestMigrateWhilePublishing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		old, new func(*rehop.Subscriber)
	}{
		{"classic to quorum", classic, nil},
		{"quorum to classic", nil, classic},
		{"time to live", func(s *rehop.Subscriber) { s.MessageTTL = time.Hour }, func(s *rehop.Subscriber) { s.MessageTTL = 2 * time.Hour }},
		{"delivery limit", func(s *rehop.Subscriber) { s.QueueArgs = map[string]any{"x-delivery-limit": int64(7)} }, nil},
		{"maximum length", classic, func(s *rehop.Subscriber) {
			s.QueueType, s.MaxLength, s.Overflow = layout.Classic, 1_000_000, "reject-publish"
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
				s := newSite(t, r)
				s.apply(plan(t, orders(c.old)))
				s.fill("order", "order.1", 0, 150)
				b := s.publishing(20 * time.Millisecond)
				b.add(0, 150)
				after(t, b, 50)
				want := plan(t, orders(c.new))
				m := s.migrate(want, "orders", admin.MigrateOptions{})
				if len(m.Changes) == 0 || len(m.Steps) == 0 {
					t.Errorf("got %+v, want changes and steps", m)
				}
				after(t, b, 50)
				b.end()
				s.apply(want)
				s.wantPlanned(want)
				b.audit(s, "orders", 0)
				if again := s.migrate(want, "orders", admin.MigrateOptions{}); len(again.Steps) > 0 {
					t.Errorf("run again, it does %v", again.Steps)
				}
			})
		})
	}
}

// after waits until n more messages are confirmed.
func after(t *testing.T, b *books, n int) {
	t.Helper()
	from := b.count()
	lab.Eventually(t, kit.Limit, "publishers go on", func() bool { return b.count() >= from+n })
}
