package fleets

import (
	"maps"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/layout"
)

// library is a fleet whose workers use a published library that retries: nothing of it is rebuilt here.
type library struct {
	fleet
	failed []known // what is known of a message that a worker has given up: the first time, and after a replay
}

// strategy is a way of rascal to recover from an error.
type strategy map[string]any

func libraries() []library {
	// The queues have a dead-letter exchange, and nothing else of what the layout's own fleet has.
	plain := map[string]any{"x-max-length": nil, "x-overflow": nil, "x-message-ttl": nil}
	queue := func(s rehop.Subscriber, args map[string]any) []rehop.Subscriber {
		s.QueueArgs = maps.Clone(plain)
		maps.Copy(s.QueueArgs, args)
		return []rehop.Subscriber{s}
	}
	rascal := func(name string, attempts, tries int, strategies ...strategy) library {
		const saveUser = "registration_service:user:save"
		once := known{queue: saveUser, exchange: "service", key: "user.created", kind: envelope.KindError, reason: toFail, attempts: attempts}
		again := once
		again.replays = 1
		return library{
			fleet: fleet{
				name: name, library: lab.Rascal, program: "rascal.js", settings: map[string]any{"recovery": strategies},
				subscriptions: queue(rehop.Subscriber{
					Layout: layout.DLX{Name: "dead_letters", Queue: "dead_letters:registration_service", QueueArgs: map[string]any{}},
					Queue:  saveUser, Exchange: "service", Keys: []string{"user.#"},
				}, map[string]any{"x-dead-letter-routing-key": "registration_service.dead_letter"}),
				exchange: "service", key: "user.created", own: []string{"delay", "retry"}, programTries: tries,
			},
			failed: []known{once, again},
		}
	}
	nack := strategy{"strategy": "nack"}
	celery := func(name string, remoteControl bool) library {
		// Celery publishes to a queue of a direct exchange by the queue's name. A retry is a new message, without rehop's headers.
		task := known{queue: "orders", key: "orders", kind: envelope.KindDead, reason: "dead-lettered by the broker: rejected", attempts: 2}
		return library{
			fleet: fleet{
				name: name, library: lab.Celery, program: "celery_fleet.py", settings: map[string]any{"remote_control": remoteControl},
				subscriptions: queue(rehop.Subscriber{
					Layout: layout.DLX{Name: "dead_letters", Queue: "dead_orders", QueueArgs: map[string]any{}},
					Queue:  "orders", Exchange: "shop", ExchangeType: "direct", Keys: []string{"order"},
				}, nil),
				exchange: "shop", key: "order", programTries: 2, compose: celeryTask,
			},
			failed: []known{task, task},
		}
	}
	all := []library{
		rascal("rascal republishes and nacks", 3, 3, strategy{"strategy": "republish", "attempts": 2}, nack),
		// rascal's mark takes the place of its count.
		rascal("rascal republishes for an immediate nack", 0, 2,
			strategy{"strategy": "republish", "attempts": 1}, strategy{"strategy": "republish", "immediateNack": true}),
		rascal("rascal forwards and nacks", 3, 3, strategy{"strategy": "forward", "attempts": 2, "publication": "retry_soon", "xDeathFix": true}, nack),
		celery("Celery", false),
	}
	if lab.Release() < broker.RabbitMQ43 { // which refuses queues that are transient and not exclusive, in this configuration
		all = append(all, celery("Celery with remote control", true))
	}
	return all
}

// celeryTask is a task of Celery that rehop publishes, by version 2 of Celery's protocol.
func celeryTask(m message) rehop.Message {
	return rehop.Message{
		Exchange: "shop", Key: "order", CorrelationID: m.ID,
		ContentType: "application/json", ContentEncoding: "utf-8",
		Headers: map[string]any{"lang": "py", "task": "shop.handle", "id": m.ID, "root_id": m.ID},
		Body:    []byte(`[[` + m.Body + `], {}, {}]`),
	}
}

// TestLibraries has workers of real libraries fail messages until those are dead-lettered, and rehop list and replay them: to a worker, a replayed
// message is as good as a new one.
func TestLibraries(t *testing.T) {
	for _, l := range libraries() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.library.Require(t)
			for _, declares := range []string{"program", "rehop"} {
				t.Run(declares+" first", func(t *testing.T) {
					t.Parallel()
					lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
						p, w := startProgram(t, l.fleet, r), startRehop(t, l.fleet, r)
						first, second := side(p), side(w)
						if declares == "rehop" {
							first, second = w, p
						}
						m := newMeeting(t, l.fleet, r, first, second)
						m.declare()
						l.failAndReplay(m, p, w)
						l.share(m, p, w)
						m.wantBalance()
					})
				})
			}
		})
	}
}

// failAndReplay has the program give up a message, twice, and handle it in the end.
func (l library) failAndReplay(m *meeting, p *program, w *worker) {
	m.t.Helper()
	published := m.publish(p, order{Fails: always})[0]
	p.consume(false)
	for i, want := range l.failed {
		for range l.programTries {
			m.wantOutcome(p, failed)
		}
		m.wantResting(1)
		l.wantFailed(m, w, published, want)
		if i < len(l.failed)-1 {
			m.wantReplayed(w, 1)
		}
	}
	p.cancel()
	if n := len(p.seen); n != 0 {
		m.t.Errorf("deliveries to the program beyond %d tries: got %d, want 0", l.programTries, n)
	}
	m.wantReplayed(w, 1)
	p.consume(true)
	m.wantOutcome(p, handled)
	m.wantResting(0)
	p.cancel()
}

// share has the program handle what rehop publishes, what rehop has failed once, and what rehop has given up and replayed.
func (l library) share(m *meeting, p *program, w *worker) {
	m.t.Helper()
	m.publish(p, order{Fails: 1, Permanent: true})
	m.wantTaken(w, failed)
	m.wantResting(1)
	m.publish(w, order{Fails: 1})
	m.wantTaken(w, retried)
	m.wantReplayed(w, 1)
	p.consume(true)
	m.wantOutcome(p, handled)
	m.wantOutcome(p, handled)
	p.cancel()
}

// wantTaken has a side deal with one message.
func (m *meeting) wantTaken(by side, want outcome) {
	m.t.Helper()
	if d := m.take(by, 1, false)[0]; d.Outcome != want {
		m.t.Fatalf("%s: got %s, want it %s", by.name(), d, want)
	}
}

// wantOutcome waits for a side to deal with a message.
func (m *meeting) wantOutcome(by side, want outcome) {
	m.t.Helper()
	if d := m.note(by, next(m.t, by)); d.Outcome != want {
		m.t.Fatalf("%s: got %s, want it %s", by.name(), d, want)
	}
}

// wantReplayed replays messages.
func (m *meeting) wantReplayed(by side, n int) {
	m.t.Helper()
	if got := by.replay(); got != n {
		m.t.Fatalf("messages that %s replayed: got %d, want %d", by.name(), got, n)
	}
}

// wantFailed checks what rehop knows of the one message that was given up.
func (l library) wantFailed(m *meeting, w *worker, published message, want known) {
	m.t.Helper()
	found, err := w.admin.Failed(kit.Context(m.t), w.queue(), 10, admin.Filter{})
	if err != nil || len(found) != 1 {
		m.t.Fatalf("messages that were given up: got %v, %v, want one", found, err)
	}
	got := found[0]
	if got.FailedAt.IsZero() {
		m.t.Error("when it failed: got nothing, want a time")
	}
	if o := m.orderOf(message{Body: string(got.Body)}); o.Order != m.orderOf(published).Order {
		m.t.Errorf("body: got %s, want that of %s", got.Body, published.Body)
	}
	if k := knownOf(got); k != want {
		m.t.Errorf("what is known of it: got\n%+v\nwant\n%+v", k, want)
	}
}

// known is what rehop knows of a message that was given up.
type known struct {
	queue, exchange, key string
	kind, reason         string
	attempts, replays    int
}

func knownOf(m admin.Message) known {
	return known{queue: m.Queue, exchange: m.Exchange, key: m.Key, kind: string(m.Kind), reason: m.Error, attempts: m.Attempts, replays: m.Replays}
}
