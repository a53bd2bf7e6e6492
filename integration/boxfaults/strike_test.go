package boxfaults

import (
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/proxy"
)

// strike is a fault. It returns how often it has struck, and ends the test if nothing shows that it has.
type strike struct {
	name string
	do   func(*scene) int
}

// strikes are the faults in the order in which they strike.
func (s *scene) strikes() []strike {
	kinds := []strike{
		{"relay killed when the broker had confirmed a batch", func(s *scene) int { return s.killRelay(orderHang) }},
		{"relay killed when the broker had confirmed half of a batch", func(s *scene) int { return s.killRelay(orderHalf) }},
		{"consumer killed between commit and ack", (*scene).killConsumer},
		{"broker killed", (*scene).killBroker},
		{"broker killed, and away until a relay gives up a batch", (*scene).loseBroker},
	}
	if s.wire != nil {
		kinds = append(kinds, strike{"connections of the consumer to the broker cut", (*scene).cutConsumer})
	}
	if s.store.server() {
		kinds = append(kinds,
			strike{"database killed", (*scene).killDatabase},
			strike{"connections cut before COMMIT has reached the database", func(s *scene) int { return s.cut(false) }},
			strike{"connections cut before the answer to COMMIT", func(s *scene) int { return s.cut(true) }},
		)
	}
	rounds := 1
	if long() {
		rounds = 6
	}
	var all []strike
	for range rounds {
		s.random.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		all = append(all, kinds...)
	}
	return all
}

// killRelay kills a relay at an exact point: the broker has messages that are still in the table.
func (s *scene) killRelay(point string) int {
	s.t.Helper()
	i := s.random.IntN(len(s.relays))
	s.relays[i].order(point)
	s.relays[i].await(wordHangs, 1)
	if !s.relays[i].kill() {
		s.t.Fatal("inconclusive: the relay had ended before it was killed")
	}
	s.relays[i] = s.spawn("relay")
	return 1
}

// killConsumer kills the consumer when the effect of a message is committed, and the message not acked.
func (s *scene) killConsumer() int {
	s.t.Helper()
	s.consumer.order(orderHang)
	s.consumer.await(wordHangs, 1)
	if !s.consumer.kill() {
		s.t.Fatal("inconclusive: the consumer had ended before it was killed")
	}
	s.consumer = s.spawn("consumer")
	return 1
}

// cutConsumer cuts the connections of the consumer while it handles messages. Its handlers continue, and so does the session that replaces the one which
// is lost: some messages are handled twice.
func (s *scene) cutConsumer() int {
	s.t.Helper()
	const cuts = 3
	for range cuts {
		s.progress()
		before := s.consumer.written(wordAway)
		s.consumer.await(wordBack, before)
		s.wire.Cut("")
		s.consumer.await(wordAway, before+1)
	}
	return cuts
}

// killBroker kills the broker while messages pass.
func (s *scene) killBroker() int {
	s.t.Helper()
	s.progress()
	before := s.consumer.written(wordAway)
	s.consumer.await(wordBack, before) // from the last time: others may be at work again before it
	s.broker.kill()
	s.consumer.await(wordAway, before+1)
	s.broker.start()
	return 1
}

// loseBroker kills the broker just before a relay sends, and starts it when the relay has given up: nobody may have those messages.
func (s *scene) loseBroker() int {
	s.t.Helper()
	r := s.relays[s.random.IntN(len(s.relays))]
	hung, failed := r.written(wordHangs), r.written(wordFailed)
	r.order(orderGate)
	r.await(wordHangs, hung+1)
	s.broker.kill()
	r.order(orderGo)
	r.await(wordFailed, failed+1)
	s.broker.start()
	return 1
}

// killDatabase kills the database's server while transactions are under way.
func (s *scene) killDatabase() int {
	s.t.Helper()
	s.progress()
	s.killServer(0)
	return 1
}

// cut breaks connections of writers, relays and the consumer to the database at a COMMIT: before the database has seen it,
// or before it has answered.
func (s *scene) cut(answered bool) int {
	s.t.Helper()
	const wanted, room = 3, 1000
	sprung := make(chan struct{}, room)
	skips := make(chan int, room) // the plan is asked for by another goroutine
	for range room {
		skips <- s.random.IntN(10)
	}
	s.proxy.SetPlan(func(n int) proxy.Plan {
		trap := proxy.Trap{Text: s.store.commits[n%len(s.store.commits)], Answered: answered, Sprung: func() {
			select {
			case sprung <- struct{}{}:
			default:
			}
		}}
		select {
		case trap.Skip = <-skips:
		default:
		}
		return proxy.Plan{Trap: trap}
	})
	s.proxy.Cut("") // so that all have connections with traps
	for range wanted {
		kit.Receive(s.t, sprung, "connection cut at a COMMIT")
	}
	s.proxy.SetPlan(nil)
	s.proxy.Cut("")
	return wanted
}
