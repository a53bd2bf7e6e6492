package boxfaults

import (
	"testing"

	"github.com/rehop/rehop/internal/conformance/seeds"
)

// inOrder is a load with handlers that fail now and then, and with few keys, so that each message has others of its key before and behind it.
func inOrder() load {
	l := leisurely
	l.Failing, l.Ordered, l.Keys = true, true, 4
	return l
}

// TestOrder follows messages with an order key from the transaction to the handler's effect: several writers commit, relays publish, and a consumer
// that handles in order by the same key writes effects through its inbox. Handlers fail and are retried; the consumer, its connections, relays, the
// broker and the database are struck. In the end the effects of each key are in the order of the commits, and each is there once.
//
// Messages that are handled again after a takeover, and those that relays send twice, come behind later ones. That is not promised otherwise, and
// the inbox drops them.
func TestOrder(t *testing.T) {
	own.stopAfter(t)
	services, stages := []string{"postgres"}, []stage{{"PostgreSQL", postgresStore, embeddedBroker}}
	if long() {
		services = append(services, "rabbitmq")
		stages = append(stages, stage{"RabbitMQ", postgresStore, rabbitBroker})
	}
	own.start(t, services...)
	for _, st := range stages {
		t.Run(st.name, st.playInOrder)
	}
}

func (st stage) playInOrder(t *testing.T) {
	seed := seeds.Of(t)
	s := newScene(t, st.store(t), st.broker, inOrder(), seed)
	s.useProxy()
	s.useWire()
	s.begin()
	for _, strike := range s.strikes() {
		s.strike(strike)
	}
	r := s.finish()
	if r.copies == 0 {
		t.Error("inconclusive: nothing was published twice")
	}
	total.add(r)
}

// disorder has the same work done by a consumer that handles messages in any order, and checks that the audit finds that.
func (st stage) disorder(t *testing.T) {
	l := inOrder()
	l.Ordered = false
	found := &finder{TB: t}
	s := newScene(t, st.store(t), st.broker, l, seeds.Of(t))
	s.begin()
	for range 20 {
		s.progress()
	}
	r := s.finish()
	s.orders.Load.Ordered = true // from here on for the audit alone
	if r = s.books.audit(found, s.truth()); r.disordered == 0 {
		t.Errorf("no effect is out of order although messages were not handled in order: %v", &r)
	}
	t.Logf("%d of %d effects were out of order", r.disordered, r.committed)
}
