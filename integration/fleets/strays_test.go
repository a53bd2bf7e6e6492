package fleets

import (
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// neighbours are a program and rehop with a queue each, both bound by the same key.
type neighbours struct {
	t       *testing.T
	program *program
	rehop   *worker
	strays  int32 // copies that rehop has not handled so far
}

const theirs, ours = "ucenter@user", "audit@user" // the program's queue, and rehop's

// turn is what becomes of a message that both of them get.
type turn struct {
	programFixed, rehopFixed bool
	program, rehop           []outcome
	strays                   int32
}

// consume lets both consume until they have done what they should.
func (n *neighbours) consume(publish func(), want turn) {
	n.t.Helper()
	n.program.consume(want.programFixed)
	n.rehop.consume(want.rehopFixed)
	publish()
	for _, o := range want.program {
		wantNext(n.t, n.program, o)
	}
	for _, o := range want.rehop {
		wantNext(n.t, n.rehop, o)
	}
	n.strays += want.strays
	lab.Eventually(n.t, kit.Limit, fmt.Sprintf("%d copies that rehop has not handled", n.strays), func() bool { return n.rehop.strays.Load() == n.strays })
	n.program.cancel()
	n.rehop.cancel()
}

func wantNext(t testing.TB, s side, want outcome) {
	t.Helper()
	if d := next(t, s); d.Outcome != want {
		t.Errorf("%s: got %s, want %s", s.name(), d, want)
	}
}

// TestStrays has a program retry by an exchange to which rehop's queue is bound too. Each retry of the program reaches both queues by
// the retry queues of both; rehop knows the copies that come by the program's. What rehop fails itself concerns nobody else.
func TestStrays(t *testing.T) {
	t.Parallel()
	fleetNamed(t, "pubsub of May 2018").library.Require(t)
	lab.EachBroker(t, func(t *testing.T, r *lab.Rabbit) {
		f := fleetNamed(t, "pubsub of May 2018")
		n := &neighbours{t: t, program: startProgram(t, f, r)}
		f.subscriptions[0].Queue = ours
		n.rehop = startRehop(t, f, r)
		n.program.declare()
		n.rehop.declare()
		ch, queues := r.Channel(), define(r).queues()
		publish := func() { n.program.publish(order{Order: "1", Fails: 1}.message()) }

		n.consume(publish, turn{rehopFixed: true, program: []outcome{retried, handled, handled}, rehop: []outcome{handled, handled}, strays: 1})
		wantDepths(t, r, ch, queues, nil)

		n.consume(publish, turn{programFixed: true, program: []outcome{handled}, rehop: []outcome{retried, handled}})
		wantDepths(t, r, ch, queues, nil)

		// What the program gives up goes to the failed queues of both, and belongs to the program.
		n.consume(func() { publishLast(t, ch, f.key) }, turn{program: []outcome{failed}, strays: 1})
		wantDepths(t, r, ch, queues, map[string]int{theirs + "@failed": 1, ours + "@failed": 1})
		found, err := n.rehop.admin.Failed(kit.Context(t), ours, 10, admin.Filter{})
		if err != nil || len(found) != 1 || found[0].Queue != theirs {
			t.Errorf("messages in the failed queue of %q: got %v, %v, want one that belongs to %q", ours, found, err, theirs)
		}
		if replayed := n.rehop.replay(); replayed != 0 {
			t.Errorf("messages of the program that rehop replayed as its own: got %d, want 0", replayed)
		}
		if done, err := n.rehop.admin.Replay(kit.Context(t), theirs, admin.Options{}); err != nil || done.Done != 1 {
			t.Errorf("replay what %q has failed: got %d, %v, want 1", theirs, done.Done, err)
		}
		n.consume(func() {}, turn{programFixed: true, rehopFixed: true, program: []outcome{handled}})
		if done, err := n.rehop.admin.Discard(kit.Context(t), ours, admin.Options{}); err != nil || done.Done != 1 {
			t.Errorf("discard the copy in the failed queue of %q: got %d, %v, want 1", ours, done.Done, err)
		}
		wantDepths(t, r, ch, queues, nil)
	})
}

// publishLast publishes a message that the program has tried four times.
func publishLast(t testing.TB, ch *amqp.Channel, key string) {
	t.Helper()
	tried := amqp.Table{"queue": theirs + "@retry", "reason": "expired", "count": int64(4), "exchange": "master.retry", "routing-keys": []any{key}}
	last := amqp.Publishing{Headers: amqp.Table{"x-death": []any{tried}}, Body: []byte(order{Order: "2", Fails: always}.message().Body)}
	if err := ch.PublishWithContext(kit.Context(t), "master", key, false, false, last); err != nil {
		t.Fatal(err)
	}
}
