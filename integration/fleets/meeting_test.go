package fleets

import (
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// meeting is a program and rehop on the same queues, and the books of what they do there.
type meeting struct {
	t             *testing.T
	fleet         fleet
	rabbit        *lab.Rabbit
	channel       *amqp.Channel
	first, second side     // the first declares before the second
	queues        []string // all that they have declared
	published     map[string]message
	tried         kit.Tally
	handled       kit.Tally
}

func newMeeting(t *testing.T, f fleet, r *lab.Rabbit, first, second side) *meeting {
	m := &meeting{t: t, fleet: f, rabbit: r, channel: r.Channel(), first: first, second: second, published: make(map[string]message)}
	t.Cleanup(func() {
		if t.Failed() {
			m.tellDepths()
		}
	})
	return m
}

// publish has a side publish new orders.
func (m *meeting) publish(by side, orders ...order) []message {
	m.t.Helper()
	all := make([]message, len(orders))
	for i, o := range orders {
		o.Order = strconv.Itoa(len(m.published))
		all[i] = o.message()
		m.published[o.Order] = all[i]
	}
	by.publish(all...)
	return all
}

// take has a side deal with n messages.
func (m *meeting) take(by side, n int, fixed bool) []delivery {
	m.t.Helper()
	all := by.take(n, fixed)
	for _, d := range all {
		m.note(by, d)
	}
	return all
}

// either waits for one of the sides to deal with a message.
func (m *meeting) either() (side, delivery) {
	m.t.Helper()
	limit := time.NewTimer(kit.Limit)
	defer limit.Stop()
	select {
	case d := <-m.first.deliveries():
		return m.first, m.note(m.first, d)
	case d := <-m.second.deliveries():
		return m.second, m.note(m.second, d)
	case <-limit.C:
		m.t.Fatalf("after %v neither side has dealt with another message", kit.Limit)
		panic("unreachable")
	}
}

const tooOften = 20 // more than a message is ever tried, and tried again when it was replayed

// note writes down what a side has done.
func (m *meeting) note(by side, d delivery) delivery {
	m.t.Helper()
	if d.Outcome == "" {
		m.t.Fatalf("%s has ended", by.name())
	}
	o := m.orderOf(d.message).Order
	if _, ok := m.published[o]; !ok {
		m.t.Fatalf("%s got %s, which nobody has published", by.name(), d.Body)
	}
	if n := m.tried.Add(o); n > tooOften {
		m.t.Fatalf("order %s: got tried %d times, and no end", o, n)
	}
	if d.Outcome == handled {
		m.handled.Add(o)
	}
	return d
}

func (m *meeting) orderOf(message message) order {
	m.t.Helper()
	o, err := message.order()
	if err != nil {
		m.t.Fatal(err)
	}
	return o
}

// want checks how a delivery ended, and what the side knew of the message.
func (m *meeting) want(by side, d delivery, count int, o outcome) {
	m.t.Helper()
	if d.Count != count || d.Outcome != o {
		m.t.Fatalf("%s: got %s, want %s after %d failures", by.name(), d, o, count)
	}
	if d.Key != m.fleet.key {
		m.t.Errorf("routing key that %s got: got %q, want %q", by.name(), d.Key, m.fleet.key)
	}
	if by.isRehop() && d.Exchange != m.fleet.exchange {
		m.t.Errorf("exchange that %s got: got %q, want %q", by.name(), d.Exchange, m.fleet.exchange)
	}
}

// wantContent checks what a side has got of a message.
func (m *meeting) wantContent(by side, got, want message, gone loss) {
	m.t.Helper()
	if g, w := m.fleet.content(got.Body), m.fleet.content(want.Body); g != w {
		m.t.Errorf("body that %s got: got %s, want %s", by.name(), g, w)
	}
	if !gone.id && got.ID != want.ID {
		m.t.Errorf("message id that %s got: got %q, want %q", by.name(), got.ID, want.ID)
	}
	for name, value := range want.Headers {
		if !gone.headers && got.Headers[name] != value {
			m.t.Errorf("header %s that %s got: got %v, want %v", name, by.name(), got.Headers[name], value)
		}
	}
}

// gone is what a message loses when a side does what takes that from it in the program's hands.
func gone(by side, l loss) loss {
	if by.isRehop() {
		return nothing
	}
	return l
}

// tries is how often a side tries a message in all.
func (m *meeting) tries(by side) int {
	if by.isRehop() {
		return m.fleet.rehopTries
	}
	return m.fleet.programTries
}

// wantResting checks that n messages have failed for good, and that there are no others.
func (m *meeting) wantResting(n int) {
	m.t.Helper()
	wantDepths(m.t, m.rabbit, m.channel, m.queues, map[string]int{m.fleet.failedQueue(): n})
}

// wantBalance checks that each message was handled once, and that none is left.
func (m *meeting) wantBalance() {
	m.t.Helper()
	for o := range m.published {
		if n := m.handled.Of(o); n != 1 {
			m.t.Errorf("order %s: got handled %d times, want once", o, n)
		}
	}
	m.wantResting(0)
}

// wantDepths checks how many messages there are in queues; in those that are not named, none.
func wantDepths(t testing.TB, r *lab.Rabbit, ch *amqp.Channel, queues []string, depths map[string]int) {
	t.Helper()
	for _, q := range queues {
		kit.WantDepth(t, r, ch, q, depths[q])
	}
}

// tellDepths logs where messages are.
func (m *meeting) tellDepths() {
	for _, q := range m.queues {
		if n := m.rabbit.Depth(m.channel, q); n > 0 {
			m.t.Logf("at the end: %d ready messages in %q", n, q)
		}
	}
}
