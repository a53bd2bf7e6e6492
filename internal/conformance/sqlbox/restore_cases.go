package sqlbox

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/outbox"
)

// restoreCases are about databases that have forgotten something: after a failover to a replica that was behind, a restored backup, or a
// reset sequence, numbers of rows are given to other messages.
func restoreCases() []Case {
	return []Case{
		{Name: "NumberOfAnother", Run: func(t *testing.T, b *Bench) {
			// The database goes back while a relay has a message published that it has not deleted yet.
			b.Migrate()
			got := b.Collect("q")
			held := newHolder(b.Client)
			relay := b.Relay()
			relay.Client = held
			b.Start(relay)
			ids := keysOfOneShard(2) // so that the second is not read before the first is deleted
			before, after := ids[0], ids[1]
			b.Put(To("q", before))
			Receive(b, held.confirmed, "confirm")
			number := b.Number("SELECT MAX(id) FROM rehop_outbox")
			b.forget(number)
			b.Put(To("q", after))
			Equal(b, "number of the next message", b.Number("SELECT MAX(id) FROM rehop_outbox"), number)
			close(held.release)
			Equal(b, "message", Receive(b, got, "message").ID, before)
			Equal(b, "message", Receive(b, got, "message with the same number").ID, after)
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
		}},
		{Name: "OldRowIDs", Run: func(t *testing.T, b *Bench) {
			// What an operator has read before does not hit another message.
			b.Migrate()
			aside := func(id string) outbox.RowID {
				b.Put(To("q", id))
				b.Exec("UPDATE rehop_outbox SET state = 3 WHERE message_id = '" + id + "'")
				list, err := b.Inspector().List(b.Context(), outbox.StateSetAside, outbox.RowID{}, 10)
				b.Must(err)
				if len(list) != 1 || list[0].Message.ID != id {
					t.Fatalf("set aside: got %+v, want %s", list, id)
				}
				return list[0].Row
			}
			before := aside("before")
			b.forget(int(before.Number))
			after := aside("after")
			Equal(b, "number", after.Number, before.Number)
			for name, change := range map[string]func(context.Context, ...outbox.RowID) (int, error){"drop": b.Inspector().Discard, "retry": b.Inspector().Retry, "republish": b.Inspector().Republish} {
				n, err := change(b.Context(), before)
				b.Must(err)
				Equal(b, name+" by a row that is gone", n, 0)
			}
			parsed, err := outbox.ParseRowID(after.String())
			b.Must(err)
			n, err := b.Inspector().Discard(b.Context(), parsed)
			b.Must(err)
			Equal(b, "dropped by its own row", n, 1)
		}},
		{Name: "SequenceReset", Run: func(t *testing.T, b *Bench) {
			// Numbers begin anew while the relay looks far behind them.
			b.Migrate()
			got := b.Collect("q")
			b.Start(b.Relay())
			wantAll := func(from, to int) {
				want := make(map[string]bool)
				for i := from; i < to; i++ {
					b.Put(To("q", fmt.Sprint(i)), ordered(fmt.Sprint("key ", i%3), "q", fmt.Sprint(i, " in order")))
					want[fmt.Sprint(i)], want[fmt.Sprint(i, " in order")] = true, true
				}
				for len(want) > 0 {
					delete(want, Receive(b, got, "message").ID)
				}
			}
			wantAll(0, 30)
			b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
			b.forget(1)
			wantAll(30, 60)
		}},
		{Name: "LeaseOfAnother", Run: func(t *testing.T, b *Bench) {
			// By a backup the leases are those of a relay that is gone. Until they end, nobody publishes.
			b.Migrate()
			got := b.Collect("q")
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks = told.hooks()
			b.Start(relay)
			b.Eventually("all leases are held", func() bool { return told.held() == 16 })
			b.Exec("UPDATE rehop_outbox_lease SET owner = 'gone', expires = " + b.Dialect.Now() + " + 3600000000")
			b.Put(To("q", "1"))
			b.Eventually("the relay has lost its leases", func() bool { return told.lost() > 0 })
			Equal(b, "published", told.totals().Published, 0)
			b.Exec("UPDATE rehop_outbox_lease SET expires = 1")
			Equal(b, "message", Receive(b, got, "message").ID, "1")
		}},
	}
}

// forget has the database give numbers anew from one on, and deletes the rows that have them.
func (b *Bench) forget(from int) {
	b.t.Helper()
	b.Exec(fmt.Sprintf("DELETE FROM rehop_outbox WHERE id >= %d", from))
	b.Exec(map[dialect.Dialect]string{
		dialect.Postgres: fmt.Sprintf("ALTER TABLE rehop_outbox ALTER COLUMN id RESTART WITH %d", from),
		dialect.MySQL:    fmt.Sprintf("ALTER TABLE rehop_outbox AUTO_INCREMENT = %d", from),
		dialect.SQLite:   fmt.Sprintf("UPDATE sqlite_sequence SET seq = %d WHERE name = 'rehop_outbox'", from-1),
	}[b.Dialect])
}

// holder is a publisher that keeps the outcomes of its first batch back.
type holder struct {
	outbox.Publisher
	confirmed chan struct{} // closed when the broker has confirmed that batch
	release   chan struct{}
	once      sync.Once
}

func newHolder(p outbox.Publisher) *holder {
	return &holder{Publisher: p, confirmed: make(chan struct{}), release: make(chan struct{})}
}

func (h *holder) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	outcomes := make([]error, len(messages))
	h.Publisher.PublishEach(ctx, messages, func(i int, err error) { outcomes[i] = err })
	h.once.Do(func() { close(h.confirmed) })
	<-h.release
	for i, err := range outcomes {
		settled(i, err)
	}
}
