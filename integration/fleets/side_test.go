package fleets

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

// side is one of the two that share the queues of a fleet: a program in another language, or rehop.
type side interface {
	name() string
	isRehop() bool
	declare()
	publish(messages ...message)
	// take deals with n messages. What makes messages fail may be fixed by then.
	take(n int, fixed bool) []delivery
	// consume deals with messages until cancel, and reports to deliveries.
	consume(fixed bool)
	cancel()
	deliveries() <-chan delivery
	failed() []message
	replay() int
}

// message is a message as both sides know it.
type message struct {
	ID      string         `json:"id"`
	Body    string         `json:"body"`
	Headers map[string]any `json:"headers"`
	Reason  string         `json:"reason,omitempty"` // failed: why
}

// order is a message's body. A worker fails a message while it has failed less often than that, as the worker counts.
type order struct {
	Order     string `json:"order"`
	Fails     int    `json:"fails"`
	Permanent bool   `json:"permanent,omitempty"` // where workers can report it: no retry helps
	Note      string `json:"note"`
}

const always = 99 // more than any fleet's limit

func (o order) message() message {
	o.Note = "grüße & <tags>"
	body, err := json.Marshal(o)
	if err != nil {
		panic(err) // it has only text and numbers
	}
	return message{ID: "id-" + o.Order, Body: string(body), Headers: map[string]any{"tenant": "acme"}}
}

// order is what a message is about. A message of Celery is a list, and begins with a list of arguments.
func (m message) order() (o order, err error) {
	body := []byte(m.Body)
	var task []json.RawMessage
	if json.Unmarshal(body, &task) == nil && len(task) > 0 {
		var args []json.RawMessage
		if err := json.Unmarshal(task[0], &args); err != nil || len(args) != 1 {
			return o, fmt.Errorf("arguments %s: got %v, want one", task[0], err)
		}
		body = args[0]
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return o, fmt.Errorf("body %q: %w", m.Body, err)
	}
	return o, nil
}

// delivery is what a side reports about a message that it has dealt with.
type delivery struct {
	message
	Count       int     `json:"count"` // how often it had failed before
	Redelivered bool    `json:"redelivered"`
	Exchange    string  `json:"exchange"`
	Key         string  `json:"key"`
	Outcome     outcome `json:"outcome"`
}

func (d delivery) String() string {
	return fmt.Sprintf("%s after %d failures: %s", d.Outcome, d.Count, d.Body)
}

// deliveries are what a side has dealt with and nobody has looked at yet.
type deliveries chan delivery

func newDeliveries() deliveries { return make(deliveries, 10_000) }

// add does not wait for room: where there is none, messages go round, and the test fails by that.
func (all deliveries) add(d delivery) {
	select {
	case all <- d:
	default:
	}
}

// next waits for a side to deal with a message.
func next(t testing.TB, s side) delivery {
	t.Helper()
	d := kit.Receive(t, s.deliveries(), s.name()+" to deal with a message")
	if d.Outcome == "" {
		t.Fatalf("%s has ended", s.name())
	}
	return d
}

// nextOf waits for a side to deal with n messages.
func nextOf(t testing.TB, s side, n int) (all []delivery) {
	t.Helper()
	for range n {
		all = append(all, next(t, s))
	}
	return all
}

type outcome string

const (
	handled outcome = "handled"
	retried outcome = "retried"
	failed  outcome = "failed"
)
