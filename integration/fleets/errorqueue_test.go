package fleets

import (
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// reader is a program whose records rehop reads in an error queue, without knowing a layout.
type reader struct {
	fleet
	recordedBy string
	kind       rehop.Kind
	error      string
	attempts   int
	limited    bool // it takes a number of messages, and then ends
}

func readers() (all []reader) {
	for _, l := range libraries() {
		k := l.failed[0]
		r := reader{fleet: l.fleet, recordedBy: "rascal", kind: rehop.Kind(k.kind), error: k.reason, attempts: max(k.attempts, 1)}
		if l.library.Name == lab.Celery.Name {
			r.recordedBy = "Celery"
		}
		all = append(all, r)
	}
	for _, f := range fleets() {
		if f.library.Name == lab.Bunny.Name {
			all = append(all, reader{fleet: f, recordedBy: "Sneakers", kind: rehop.KindError, error: toFail, attempts: f.programTries, limited: true})
		}
	}
	return all
}

// TestErrorQueues has workers of other libraries fail a message twice until it is in their error queue. Each time, rehop reads and replays it
// there, without any layout, and the worker gives it all its attempts again. In the end the worker handles it.
func TestErrorQueues(t *testing.T) {
	for _, r := range readers() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			r.library.Require(t)
			lab.EachBroker(t, func(t *testing.T, broker *lab.Rabbit) {
				a, err := admin.Open(kit.Context(t), admin.Config{URL: broker.URL})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(a.Close)
				p, q, ch := startProgram(t, r.fleet, broker), a.ErrorQueue(r.failedQueue()), broker.Channel()
				p.declare()
				published := order{Order: "7", Fails: always}.message()
				p.publish(published)
				for range 2 {
					r.start(p, r.programTries, false)
					for range r.programTries {
						r.wantOutcome(t, p, failed)
					}
					kit.WantDepth(t, broker, ch, r.failedQueue(), 1)
					r.stop(p)
					r.wantRecord(t, q, published)
					if done, err := q.Replay(kit.Context(t), "", admin.Options{}); err != nil || done.Done != 1 {
						t.Fatalf("replay: got %+v, %v, want 1 message", done, err)
					}
					kit.WantDepth(t, broker, ch, r.failedQueue(), 0)
				}
				r.start(p, 1, true)
				r.wantOutcome(t, p, handled)
				r.stop(p)
				kit.WantDepth(t, broker, ch, r.subscriptions[0].Queue, 0)
				kit.WantDepth(t, broker, ch, r.failedQueue(), 0)
			})
		})
	}
}

// start has the program deal with messages, and stop has it end that. Some programs end after a number of messages.
func (r reader) start(p *program, n int, fixed bool) {
	p.t.Helper()
	p.perform(command{Do: "consume", Limit: n, Fixed: fixed})
}

func (r reader) stop(p *program) {
	p.t.Helper()
	if !r.limited {
		p.cancel()
	}
}

func (r reader) wantOutcome(t testing.TB, p *program, want outcome) {
	t.Helper()
	got := next(t, p).Outcome
	if got == retried && want == failed {
		return // it will be tried again
	}
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// wantRecord checks what is known of the one message.
func (r reader) wantRecord(t testing.TB, q *admin.ErrorQueue, published message) {
	t.Helper()
	found, err := q.Messages(kit.Context(t), 10, admin.Filter{})
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v, %v, want one message", found, err)
	}
	m := found[0]
	if m.RecordedBy != r.recordedBy || m.Queue != r.subscriptions[0].Queue || m.Kind != r.kind || m.Error != r.error || m.Attempts != r.attempts || m.FailedAt.IsZero() || m.ID != published.ID {
		t.Errorf("got %q of %q by %s: kind %s, error %q, %d attempts, at %v;\nwant %q of %q by %s: kind %s, error %q, %d attempts, and a time",
			m.ID, m.Queue, m.RecordedBy, m.Kind, m.Error, m.Attempts, m.FailedAt, published.ID, r.subscriptions[0].Queue, r.recordedBy, r.kind, r.error, r.attempts)
	}
	got, err := message{Body: string(m.Body)}.order()
	want, _ := published.order()
	if err != nil || got != want {
		t.Errorf("body: got %s, %v, want %s", m.Body, err, published.Body)
	}
}
