package moving

import (
	"context"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/envelope"
	"github.com/rehop/rehop/internal/rabbit"
)

// fate is what must become of a message.
type fate struct {
	key      string
	due      time.Time // it must not arrive before; zero: it does not wait
	failed   bool      // it belongs into the failed queue
	failures int       // as its headers count them
}

// books account for every message by its id.
type books struct {
	want  map[string]fate
	got   map[string]int
	early []string // messages that came before they were due
	bad   []string // what is wrong with messages that have come
	late  int      // messages with a wait that came while the auditor watched, so that their time is known
}

func newBooks() *books { return &books{want: make(map[string]fate), got: make(map[string]int)} }

// arrival is a message that has come out of a queue, or was handled.
type arrival struct {
	id, exchange, key string
	failures          int
	kept              bool // it has the header with which it was published
	failed            bool // it was in the failed queue
	at                time.Time
	watched           bool // at is when it came, and not later
}

// record takes a message that has come out of a queue of the target.
func (b *books) record(d amqp.Delivery, failed bool, at time.Time, watched bool) {
	f := envelope.Read(rabbit.FromTable(d.Headers), d.Exchange, d.RoutingKey)
	if failed {
		f = kit.Failure(d)
	}
	b.enter(arrival{d.MessageId, f.Exchange, f.Key, f.Attempt, d.Headers["kept"] == "yes", failed, at, watched})
}

func (b *books) enter(a arrival) {
	b.got[a.id]++
	want, known := b.want[a.id]
	switch {
	case !known:
		b.complain("message %q was never published", a.id)
	case a.at.Before(want.due):
		b.early = append(b.early, fmt.Sprintf("%s by %v", a.id, want.due.Sub(a.at)))
	case a.failed != want.failed:
		b.complain("message %s: in the failed queue %v, want %v", a.id, a.failed, want.failed)
	case a.exchange != "order" || a.key != want.key || a.failures != want.failures || !a.kept:
		b.complain("message %s: got exchange %q, key %q, %d failures, header kept %v; want order, %q, %d, true", a.id, a.exchange, a.key, a.failures, a.kept, want.key, want.failures)
	}
	if !want.due.IsZero() && a.watched {
		b.late++
	}
}

func (b *books) complain(format string, args ...any) {
	b.bad = append(b.bad, fmt.Sprintf(format, args...))
}

// lost are the messages that have not come.
func (b *books) lost() (ids []string) {
	for id := range b.want {
		if b.got[id] == 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// twice is how many messages have come more often than once, counted by their copies.
func (b *books) twice() (n int) {
	for _, times := range b.got {
		n += times - 1
	}
	return n
}

// verdict is what the books have against a move after which there may be this number of copies too many; "" if nothing.
func (b *books) verdict(copies int) string {
	var faults []string
	if lost := b.lost(); len(lost) > 0 {
		faults = append(faults, fmt.Sprintf("%d messages are lost, such as %s", len(lost), lost[0]))
	}
	if n := b.twice(); n > copies {
		faults = append(faults, fmt.Sprintf("%d copies too many, want at most %d", n, copies))
	}
	if n := len(b.early); n > 0 {
		faults = append(faults, fmt.Sprintf("%d messages came too early, such as %s", n, b.early[0]))
	}
	if n := len(b.bad); n > 0 {
		faults = append(faults, fmt.Sprintf("%d messages are wrong: %s", n, strings.Join(b.bad[:min(n, 5)], "; ")))
	}
	return strings.Join(faults, "\n")
}

// batch is how many messages may be moved twice for each fault.
const batch = 256

// audit empties the queues of the target, until all messages have come, and none is on its way any more.
func (b *books) audit(ctx context.Context, r *lab.Rabbit, last time.Time) error {
	conn, err := r.Dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(1000, 0, false); err != nil {
		return err
	}
	ready, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	failed, err := ch.Consume("orders.failed", "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	// What is in the queue already may have come at any time before. The first message that comes behind it shows that it is read.
	began := time.Now()
	end := time.NewTimer(time.Until(last) + quiet)
	defer end.Stop()
	for {
		var d amqp.Delivery
		dead := false
		select {
		case d = <-ready:
		case d = <-failed:
			dead = true
		case <-end.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if d.Acknowledger == nil {
			return fmt.Errorf("the target has closed the channel after %d messages", len(b.got))
		}
		now := time.Now()
		b.record(d, dead, now, b.want[d.MessageId].due.After(began))
		if err := d.Ack(false); err != nil {
			return err
		}
		switch {
		case len(b.got) >= len(b.want):
			end.Reset(calm)
		case time.Now().After(last):
			end.Reset(quiet)
		}
	}
}

// quiet is for how long nothing must have come before messages count as lost, and calm before no more copies are expected.
const quiet, calm = 15 * time.Second, 3 * time.Second
