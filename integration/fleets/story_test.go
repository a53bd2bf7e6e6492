package fleets

import (
	"slices"
	"strings"

	"github.com/rehop/rehop/integration/kit"
)

// play plays what happens when a program and rehop meet, one story after the other on the same queues.
func (m *meeting) play() {
	m.declare()
	v := m.rabbit.Version()
	if m.fleet.shares == byClients && v >= "4" || m.fleet.lostFrom != "" && v >= m.fleet.lostFrom {
		// Neither side sees how often the other has failed a message, and a program that does not reject never gives up.
		m.handOver()
		if m.fleet.rejects {
			m.giveUp()
		}
		m.wantBalance()
		return
	}
	m.pass(m.first)
	m.pass(m.second)
	m.alternate()
	m.rest()
	if m.fleet.permanent {
		m.refuse()
	}
	m.compete()
	m.wantBalance()
}

// declare has both sides declare all that they need. It must be the same, except for what rehop adds.
func (m *meeting) declare() {
	m.first.declare()
	before := define(m.rabbit).lines()
	m.second.declare()
	all := define(m.rabbit)
	m.queues = all.queues()
	added := beyond(all.lines(), before)
	if m.second.isRehop() {
		added = notOnlyRehops(added)
	}
	for _, line := range added {
		if name, _, _ := strings.Cut(line, ":"); slices.Contains(m.fleet.own, name) {
			continue
		}
		m.t.Errorf("%s has declared what %s has not: %s", m.second.name(), m.first.name(), line)
	}
}

// handOver has each side fail and handle what the other has published, without counting, and rehop's own messages go to the failed queue and back.
func (m *meeting) handOver() {
	for _, by := range []side{m.first, m.second} {
		other := m.second
		if by == m.second {
			other = m.first
		}
		message := m.publish(other, order{Fails: 1})[0]
		m.want(by, m.take(by, 1, false)[0], 0, retried)
		d := m.take(other, 1, true)[0]
		if d.Outcome != handled || d.Key != m.fleet.key {
			m.t.Errorf("%s: got %s with key %q, want it handled, with key %q", other.name(), d, d.Key, m.fleet.key)
		}
		m.wantContent(other, d.message, message, gone(by, m.fleet.loses.atRetry))
		if by.isRehop() {
			m.publish(other, order{Fails: always})
			m.take(by, m.fleet.rehopTries, false)
			m.wantResting(1)
			m.replay(other, 1)
			m.want(by, m.take(by, 1, true)[0], 0, handled)
		}
	}
}

// giveUp has the program alone give up a message that rehop has published, looks for, replays and handles.
func (m *meeting) giveUp() {
	program, rehop := m.first, m.second
	if program.isRehop() {
		program, rehop = rehop, program
	}
	message := m.publish(rehop, order{Fails: always})[0]
	for i, d := range m.take(program, m.fleet.programTries, false) {
		want := retried
		if i+1 == m.fleet.programTries {
			want = failed
		}
		m.want(program, d, i, want)
	}
	m.wantResting(1)
	found := rehop.failed()
	if len(found) != 1 {
		m.t.Fatalf("messages that rehop finds at rest: got %d, want 1", len(found))
	}
	if found[0].Reason != m.fleet.reason {
		m.t.Errorf("reason that rehop finds: got %q, want %q", found[0].Reason, m.fleet.reason)
	}
	m.wantContent(rehop, found[0], message, m.fleet.loses.atRest)
	m.replay(rehop, 1)
	d := m.take(program, 1, true)[0]
	m.want(program, d, 0, handled)
	m.wantContent(program, d.message, message, m.fleet.loses.atRest)
	m.wantResting(0)
}

// pass has the first side fail a message that the second one then handles, and which must know how often it has failed.
func (m *meeting) pass(publisher side) {
	fails := min(2, m.fleet.programTries-1)
	message := m.publish(publisher, order{Fails: fails})[0]
	for i, d := range m.take(m.first, fails, false) {
		m.want(m.first, d, i, retried)
	}
	d := m.take(m.second, 1, false)[0]
	m.want(m.second, d, fails, handled)
	m.wantContent(m.second, d.message, message, gone(m.first, m.fleet.loses.atRetry))
	m.wantResting(0)
}

// alternate has both sides fail a message in turn, until one of them gives it up.
func (m *meeting) alternate() {
	m.publish(m.first, order{Fails: always})
	by, other := m.first, m.second
	for count := 0; ; count++ {
		d := m.take(by, 1, false)[0]
		if count+1 >= m.tries(by) {
			m.want(by, d, count, failed)
			break
		}
		m.want(by, d, count, retried)
		by, other = other, by
	}
	m.wantResting(1)
	m.recover(other, by)
}

// rest has the first side give up a message that the second one has published, looks for and replays.
func (m *meeting) rest() {
	message := m.publish(m.second, order{Fails: always})[0]
	tries := m.tries(m.first)
	for i, d := range m.take(m.first, tries, false) {
		want := retried
		if i+1 == tries {
			want = failed
		}
		m.want(m.first, d, i, want)
	}
	loss := gone(m.first, m.fleet.loses.atRest)
	m.wantContent(m.second, m.wantFailed(m.fleet.reason), message, loss)
	d := m.recover(m.second, m.first)
	m.wantContent(m.first, d.message, message, loss.and(gone(m.second, m.fleet.loses.atReplay)))
}

// refuse has the first side give up a message at once.
func (m *meeting) refuse() {
	message := m.publish(m.second, order{Permanent: true})[0]
	m.want(m.first, m.take(m.first, 1, false)[0], 0, failed)
	m.wantContent(m.second, m.wantFailed("business_rejected"), message, gone(m.first, m.fleet.loses.atRest))
	m.replay(m.second, 1)
	m.want(m.first, m.take(m.first, 1, true)[0], 0, handled)
	m.wantResting(0)
}

// wantFailed has the second side look for the one failed message.
func (m *meeting) wantFailed(reason string) message {
	m.t.Helper()
	m.wantResting(1)
	found := m.second.failed()
	if len(found) != 1 {
		m.t.Fatalf("messages that %s finds at rest: got %d, want 1", m.second.name(), len(found))
	}
	if reason != "" && found[0].Reason != reason {
		m.t.Errorf("reason that %s finds: got %q, want %q", m.second.name(), found[0].Reason, reason)
	}
	m.wantResting(1)
	return found[0]
}

// recover has one side replay the one failed message. Another one fails it once more, as if it were new, and then handles it.
func (m *meeting) recover(replays, handles side) delivery {
	m.t.Helper()
	m.replay(replays, 1)
	m.want(handles, m.take(handles, 1, false)[0], 0, retried)
	d := m.take(handles, 1, true)[0]
	m.want(handles, d, 1, handled)
	m.wantResting(0)
	return d
}

// replay has a side replay the failed messages.
func (m *meeting) replay(by side, n int) {
	m.t.Helper()
	if got := by.replay(); got != n {
		m.t.Fatalf("messages that %s replayed: got %d, want %d", by.name(), got, n)
	}
}

// compete has both sides consume at once. Each message is handled once, or fails for good once, after the expected number of failures.
func (m *meeting) compete() {
	const messages, resting = 200, 10
	orders := make([]order, messages)
	for i := range orders {
		switch {
		case i%(messages/resting) == 7:
			orders[i].Fails = always
		case i%10 == 3:
			orders[i].Fails = 1
		case i%10 == 8:
			orders[i].Fails = min(2, m.fleet.programTries-1)
		}
	}
	m.first.consume(false)
	m.second.consume(false)
	all := append(m.publish(m.first, orders[:messages/2]...), m.publish(m.second, orders[messages/2:]...)...)
	var retries, rests, work kit.Tally
	count := func(by side, d delivery) (settled bool) {
		work.Add(by.name())
		switch o := m.orderOf(d.message).Order; d.Outcome {
		case retried:
			retries.Add(o)
			return false
		case failed:
			rests.Add(o)
		}
		return true
	}
	for settled := 0; settled < messages; {
		if by, d := m.either(); count(by, d) {
			settled++
		}
	}
	for _, by := range []side{m.first, m.second} {
		by.cancel()
		for range len(by.deliveries()) { // a side may report late that it has failed what the other has handled since
			count(by, m.note(by, next(m.t, by)))
		}
	}
	for _, s := range []side{m.first, m.second} {
		if work.Of(s.name()) == 0 {
			m.t.Errorf("%s has got no message, so they did not compete", s.name())
		}
	}
	least, most := m.fleet.programTries, m.fleet.rehopTries
	if least > most {
		least, most = most, least
	}
	for _, message := range all {
		o := m.orderOf(message)
		switch n := retries.Of(o.Order); {
		case o.Fails < always && (n != o.Fails || rests.Of(o.Order) != 0):
			m.t.Errorf("order %s: got %d failures, and rested %d times, want %d failures", o.Order, n, rests.Of(o.Order), o.Fails)
		case o.Fails == always && (n+1 < least || n+1 > most || rests.Of(o.Order) != 1):
			m.t.Errorf("order %s: got tried %d times, and rested %d times, want %d to %d times, once", o.Order, n+1, rests.Of(o.Order), least, most)
		}
	}
	m.wantResting(resting)
	m.replay(m.second, resting)
	m.take(m.first, resting, true)
	m.wantResting(0)
}
