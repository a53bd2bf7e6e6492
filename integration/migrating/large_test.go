package migrating

import (
	"testing"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/lab"
)

// What was in a queue comes back in its order, however much it is.
func TestMigrateManyMessages(t *testing.T) {
	t.Parallel()
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		s := newSite(t, r)
		s.apply(plan(t, orders(classic)))
		n := 2_000
		if long() {
			n = 20_000
		}
		s.fill("order", "order.1", 0, n)
		want := plan(t, orders(nil))
		start, most := time.Now(), 0
		s.migrate(want, "orders", admin.MigrateOptions{Progress: func(p admin.MigrationProgress) {
			most = max(most, p.Moved)
		}})
		t.Logf("%d messages in %v", n, time.Since(start))
		if most != 2*n {
			t.Errorf("progress tells of %d messages moved, want %d", most, 2*n)
		}
		s.wantPlanned(want)
		wantOrder(s, "orders", 0, n)
	})
}
