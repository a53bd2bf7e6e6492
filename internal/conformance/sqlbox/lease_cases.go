package sqlbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/internal/sqltext"
	"github.com/rehop/rehop/outbox"
)

// shortLease is the lease of relays that are to be replaced soon. It is long enough for a busy machine, on which relays with shorter ones would
// lose them again and again.
const shortLease = 8 * time.Second

func leaseCases() []Case {
	return []Case{
		{Name: "StoppedAtBarrier", Not: oneWriter, Run: func(t *testing.T, b *Bench) {
			// A relay is stopped between its barrier and the commit, and keeps its locks. Another one takes its place anyway.
			b.Migrate()
			got := b.Collect("q")
			sql := sqltext.SQL{Dialect: b.Dialect}
			const owner = "stopped"
			b.Exec("INSERT INTO rehop_outbox_relay (owner, expires, listening) VALUES ('stopped', 1, 0)")
			b.Exec("UPDATE rehop_outbox_lease SET owner = 'stopped', expires = 1")
			tx, err := b.DB.BeginTx(b.Context(), nil)
			b.Must(err)
			defer tx.Rollback()
			query, args := sql.Owned([]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, owner, true)
			var held, number, written int64
			b.Must(tx.QueryRowContext(b.Context(), query, args...).Scan(&held, &number, &written))
			if query := sql.Barrier(); query != "" {
				_, err = tx.ExecContext(b.Context(), query, owner)
				b.Must(err)
			}
			told := newRecorder()
			relay := b.Relay()
			relay.Hooks = told.hooks()
			b.Start(relay)
			b.Put(To("q", "1"), ordered("k", "q", "2"))
			ids := map[string]bool{Receive(b, got, "message").ID: true, Receive(b, got, "message").ID: true}
			if !ids["1"] || !ids["2"] {
				t.Errorf("messages: got %v, want 1 and 2", ids)
			}
			Equal(b, "leases", told.held(), 16)
			b.Must(tx.Rollback())
			b.Eventually("the stopped relay is forgotten", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_outbox_relay WHERE owner = 'stopped'") == 0 })
		}},
		{Name: "Share", Run: share},
		{Name: "Dead", Run: func(t *testing.T, b *Bench) {
			// A relay that dies gives nothing back. It is replaced when its leases end.
			b.Migrate()
			b.Queue("q")
			dead, told := newRecorder(), newRecorder()
			relay := b.Relay()
			relay.Lease, relay.Hooks, relay.DB = shortLease, dead.hooks(), b.Open(t)
			b.Start(relay)
			b.Eventually("the first relay holds all leases", func() bool { return dead.held() == 16 })
			Equal(b, "leases that last longer than asked for", b.Number(fmt.Sprintf("SELECT COUNT(*) FROM rehop_outbox_lease WHERE expires > %s + %d", b.Dialect.Now(), shortLease.Microseconds())), 0)
			b.Must(relay.DB.Close())
			died := time.Now()
			Receive(b, dead.faults, "fault")
			relay.Hooks, relay.DB = told.hooks(), b.DB
			b.Start(relay)
			got := b.Collect("q")
			b.putEverywhere()
			for range everywhere {
				Receive(b, got, "message")
			}
			took := time.Since(died)
			b.Eventually("the second relay holds all leases, and the first knows", func() bool { return told.held() == 16 && dead.held() == 0 })
			t.Logf("replaced after %v with leases of %v", took, relay.Lease)
		}},
		{Name: "Stale", Run: stale},
		{Name: "GivenBackInFlight", Run: givenBackInFlight},
		{Name: "BrokerAwayForOne", Run: func(t *testing.T, b *Bench) {
			// A relay that loses the broker lets others do the work.
			b.Migrate()
			got := b.Collect("q")
			lonely := newRecorder()
			publisher := &stateful{Publisher: b.Client}
			publisher.state.Store(rehop.StateOpen)
			relay := b.Relay()
			relay.Lease, relay.Hooks, relay.Client = shortLease, lonely.hooks(), publisher
			b.Start(relay)
			b.Eventually("the first relay holds all leases", func() bool { return lonely.held() == 16 })
			publisher.state.Store(rehop.StateRecovering)
			told := newRecorder()
			relay.Hooks, relay.Client = told.hooks(), b.Client
			b.Start(relay)
			b.Eventually("the second relay holds all leases", func() bool { return told.held() == 16 })
			b.putEverywhere()
			for range everywhere {
				Receive(b, got, "message")
			}
			publisher.state.Store(rehop.StateOpen)
			b.Eventually("both share the leases again", func() bool { return told.held() == 8 && lonely.held() == 8 })
		}},
		{Name: "NoRows", Run: func(t *testing.T, b *Bench) {
			// Somebody has emptied all tables, before and while a relay works.
			b.Migrate()
			got := b.Collect("q")
			b.Exec("DELETE FROM rehop_outbox_lease")
			relay := b.Relay()
			relay.Lease = shortLease
			b.Start(relay)
			for range 2 {
				b.putEverywhere()
				for range everywhere {
					Receive(b, got, "message")
				}
				b.Exec("DELETE FROM rehop_outbox_lease")
				b.Exec("DELETE FROM rehop_outbox_relay")
				b.Eventually("the leases are there again", func() bool { return b.Number("SELECT COUNT(*) FROM rehop_outbox_lease") == 16 })
			}
		}},
		{Name: "ClockOfTheRelay", Run: func(t *testing.T, b *Bench) {
			// Only the database's clock counts: here all leases seem to end in the far future, and one was taken by force.
			b.Migrate()
			got := b.Collect("q")
			told := newRecorder()
			relay := b.Relay()
			relay.Lease, relay.Hooks = shortLease, told.hooks()
			b.Start(relay)
			b.Eventually("the relay holds all leases", func() bool { return told.held() == 16 })
			b.Exec("UPDATE rehop_outbox_lease SET owner = 'somebody else', term = term + 1, expires = expires + 1000000 WHERE shard = 5")
			b.Eventually("it notices", func() bool { return told.lost() > 0 })
			b.putEverywhere()
			b.Eventually("the relay holds all leases again, when that one has ended", func() bool { return told.held() == 16 })
			for range everywhere {
				Receive(b, got, "message")
			}
		}},
	}
}

// everywhere is how many messages have some in each shard.
const everywhere = 200

func (b *Bench) putEverywhere() {
	b.t.Helper()
	var messages []rehop.Message
	for i := range everywhere {
		messages = append(messages, To("q", fmt.Sprint(i)))
	}
	b.Put(messages...)
}

// share: several relays have about as many leases each, and publish each message once.
func share(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	var told []*recorder
	var stops []func()
	for range 3 {
		r := newRecorder()
		relay := b.Relay()
		relay.DB, relay.Hooks, relay.Lease = b.Open(t), r.hooks(), shortLease
		told, stops = append(told, r), append(stops, b.Start(relay))
	}
	balanced := func(n int) func() bool {
		return func() bool {
			sum := 0
			for _, r := range told[:n] {
				held := r.held()
				if sum += held; held > (16+n-1)/n {
					return false
				}
			}
			return sum == 16
		}
	}
	b.Eventually("three relays share the leases", balanced(3))
	b.putEverywhere()
	times := make(map[string]int)
	for range everywhere {
		times[Receive(b, got, "message").ID]++
	}
	Equal(b, "different messages", len(times), everywhere)
	b.Eventually("each relay has published some", func() bool {
		return !slices.ContainsFunc(told, func(r *recorder) bool { return r.totals().Published == 0 })
	})
	stops[2]()
	b.Eventually("two relays share the leases", balanced(2))
	b.putEverywhere()
	for range everywhere {
		Receive(b, got, "message")
	}
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	Equal(b, "messages more than once", len(got), 0)
}

// givenBackInFlight: a relay is to give leases to another one while messages of all shards are being published. It gives none back before their
// outcomes are known, so each message is published once.
func givenBackInFlight(t *testing.T, b *Bench) {
	b.Migrate()
	got := b.Collect("q")
	s := &stuck{Publisher: b.Client, hangs: make(chan struct{}, 100), goOn: make(chan struct{}), outcomes: make(chan error, 100)}
	// The broker blocks when it has got the first messages, so the relay waits for their outcomes.
	publisher := &stateful{}
	publisher.state.Store(rehop.StateOpen)
	block := sync.OnceFunc(func() { publisher.state.Store(rehop.StateBlocked) })
	publisher.Publisher = &watcher{Publisher: s, sends: func(string) { block() }}
	first, second := newRecorder(), newRecorder()
	relay := b.Relay()
	relay.Lease, relay.Hooks, relay.Client, relay.Timeout = shortLease, first.hooks(), publisher, limit
	b.Start(relay)
	b.Eventually("the first relay holds all leases", func() bool { return first.held() == 16 })
	var messages []rehop.Message
	shards := make(map[int]bool)
	for i := 0; len(shards) < 16; i++ {
		if key := fmt.Sprint("key ", i); !shards[shardOf(key)] {
			shards[shardOf(key)] = true
			messages = append(messages, ordered(key, "q", key))
		}
	}
	b.Put(messages...)
	Receive(b, s.hangs, "the first relay publishes")
	relay.DB, relay.Hooks, relay.Client = b.Open(t), second.hooks(), b.Client
	b.Start(relay)
	b.Eventually("the second relay is known", func() bool {
		return b.Number("SELECT COUNT(*) FROM rehop_outbox_relay WHERE expires > "+b.Dialect.Now()) == 2
	})
	for range 2 { // after the second time, the first relay knows the second, and would have given leases back
		ends := b.Number("SELECT MAX(expires) FROM rehop_outbox_lease")
		b.Eventually("leases are renewed", func() bool { return b.Number("SELECT MAX(expires) FROM rehop_outbox_lease") > ends })
	}
	if first.lost() == 0 { // else the machine is so slow that the second has them by right
		Equal(b, "leases of the second relay while messages of all shards are under way", second.held(), 0)
	}
	close(s.goOn)
	publisher.state.Store(rehop.StateOpen)
	b.Eventually("both share the leases", func() bool { return first.held() == 8 && second.held() == 8 })
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	times := make(map[string]int)
	for len(times) < len(messages) {
		times[Receive(b, got, "message").ID]++
	}
	if first.lost() == 0 {
		Equal(b, "messages more than once", len(got), 0)
	}
}

// stuck is a publisher that hangs before it sends, until it is let go.
type stuck struct {
	outbox.Publisher
	hangs    chan struct{}
	goOn     chan struct{}
	outcomes chan error
}

func (s *stuck) PublishEach(ctx context.Context, messages []rehop.Message, settled func(int, error)) {
	s.hangs <- struct{}{}
	<-s.goOn
	s.Publisher.PublishEach(ctx, messages, func(i int, err error) {
		s.outcomes <- err
		settled(i, err)
	})
}

// stale: a relay that hung while another one took its place publishes nothing when it continues.
func stale(t *testing.T, b *Bench) {
	b.Migrate()
	b.Queue("q")
	client := b.OpenClient()
	b.Must(client.Publish(b.Context(), rehop.Message{ID: "0", Key: "q"})) // nothing is missing now to publish more
	s := &stuck{Publisher: client, hangs: make(chan struct{}, 100), goOn: make(chan struct{}), outcomes: make(chan error, 100)}
	first := newRecorder()
	relay := b.Relay()
	relay.Lease, relay.Hooks, relay.Client, relay.DB = shortLease, first.hooks(), s, b.Open(t)
	b.Start(relay)
	b.Eventually("the first relay holds all leases", func() bool { return first.held() == 16 })
	b.Put(ordered("k", "q", "1"), ordered("k", "q", "2"))
	Receive(b, s.hangs, "the first relay publishes")
	b.Must(relay.DB.Close()) // a process that is stopped renews no leases
	second := newRecorder()
	relay.Hooks, relay.Client, relay.DB = second.hooks(), b.Client, b.DB
	b.Start(relay)
	got := b.Collect("q")
	for _, want := range []string{"0", "1", "2"} {
		id := Receive(b, got, "message of the second relay").ID
		for id < want && second.lost() > 0 { // on a busy machine it loses its leases, too, and sends something again
			id = Receive(b, got, "message of the second relay").ID
		}
		Equal(b, "message", id, want)
	}
	b.Eventually("the outbox is empty", func() bool { return b.Rows() == 0 })
	close(s.goOn)
	if err := Receive(b, s.outcomes, "outcome of the first relay"); err == nil {
		t.Error("the first relay has published after its leases had ended")
	}
	b.Put(To("q", "last"))
	for id := ""; id != "last"; { // on a busy machine the second relay may have lost its leases too, and sent something again
		id = Receive(b, got, "message").ID
	}
	Equal(b, "what the first relay has published", first.totals().Published, 0)
}
