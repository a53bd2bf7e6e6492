package moving

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/layouts"
)

// The auditor finds what is wrong with moves that have bugs, and nothing wrong with rehop's, each with a connection that is cut.
func TestAuditorCatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		move func(*scene) (done bool)
		want string // in the complaint; "": there is none
	}{
		{"NoBug", (*scene).moveWell, ""},
		{"AckBeforeConfirm", func(s *scene) bool { return s.moveBadly(bugs{acksFirst: true}) }, "are lost"},
		{"WaitShortened", func(s *scene) bool { return s.moveBadly(bugs{hurries: true}) }, "too early"},
		{"KeyRewritten", func(s *scene) bool { return s.moveBadly(bugs{renames: true}) }, "are lost"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var s *scene
			// On a slow machine waits end during the move: then once more, with longer ones.
			for wait, done := 20*time.Second, false; !done; wait *= 2 {
				s = newScene(t, &side{Rabbit: lab.Embedded(t)}, &side{Rabbit: lab.Embedded(t)}, scale{messages: 900, wait: wait, slice: 4 << 10, latency: latency})
				s.fill()
				s.define()
				done = test.move(s)
			}
			if err := s.books.audit(s.ctx, s.to.Rabbit, s.last); err != nil {
				t.Fatal(err)
			}
			got := s.books.verdict(batch)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got the complaint %q, want one with %q", got, test.want)
			}
		})
	}
}

// admins opens both sides, the target through the proxy.
func (s *scene) admins() (from, to *admin.Admin) {
	s.t.Helper()
	open := func(url string, r *lab.Rabbit) *admin.Admin {
		a, err := admin.Open(s.ctx, admin.Config{URL: url, Management: r.Management()})
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(a.Close)
		return a
	}
	return open(s.from.URL, s.from.Rabbit), open(s.through, s.to.Rabbit)
}

// define moves the definitions alone: the queues are left out, and then declared as the source has them.
func (s *scene) define() {
	s.t.Helper()
	var live struct {
		Queues, Exchanges, Bindings []map[string]any
	}
	s.from.API("GET", "/api/definitions/"+s.from.Vhost, nil, &live)
	s.to.API("POST", "/api/definitions/"+s.to.Vhost, map[string]any{"queues": live.Queues, "exchanges": live.Exchanges, "bindings": live.Bindings}, nil)
}

// moveWell moves with rehop, and cuts its connections once.
func (s *scene) moveWell() bool {
	s.t.Helper()
	from, to := s.admins()
	cut := false
	balance, err := from.Move(s.ctx, to, admin.MoveOptions{Progress: func(p admin.MoveProgress) {
		if p.Moved > 200 && !cut {
			cut = true
			s.proxy.Cut("")
		}
	}})
	if err != nil || !cut {
		s.t.Fatalf("got %v, cut %v\n%s", err, cut, balance)
	}
	return true
}

// bugs are those of a move that is not rehop's.
type bugs struct {
	acksFirst bool // messages are acked before the target has confirmed them
	hurries   bool // messages that wait go to their queue at once
	renames   bool // messages are published with the name of the delay queue as key, as a shovel does that has a queue as its destination
}

// moveBadly moves the messages of all queues. In the middle, the connection to the target is cut. False: the wait of a message ended
// before it was moved.
func (s *scene) moveBadly(b bugs) bool {
	s.t.Helper()
	source := s.from.Channel()
	target := s.target()
	names, err := s.from.queues()
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, name := range names {
		for left := s.from.depth(name); left > 0; left-- {
			d, ok, err := source.Get(name, b.acksFirst)
			if err != nil {
				s.t.Fatalf("get a message of %q: %v", name, err)
			}
			if !ok {
				return false
			}
			n++
			switch {
			case n == 200 && b.acksFirst:
				s.proxy.Freeze("")
			case n == 250 && b.acksFirst: // what was sent since has not arrived
				s.proxy.Cut("")
				s.proxy.Thaw()
				target = s.target()
			}
			exchange, key := "", name
			if layouts.IsWaitQueue(name) && !b.renames {
				exchange, key = name, d.RoutingKey
				if strings.HasPrefix(name, "rehop.step.") {
					exchange = layouts.StepExchange
				}
				if b.hurries {
					exchange, key = "", "orders"
				}
			}
			confirm, err := target.PublishWithDeferredConfirmWithContext(s.ctx, exchange, key, false, false, amqp.Publishing{MessageId: d.MessageId, Headers: d.Headers, Body: d.Body, DeliveryMode: d.DeliveryMode})
			if err != nil {
				s.t.Fatal(err)
			}
			if b.acksFirst {
				continue
			}
			if ok, err := confirm.WaitContext(s.ctx); err != nil || !ok {
				s.t.Fatalf("message %s was not confirmed: %v", d.MessageId, err)
			}
			if err := d.Ack(false); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return true
}

// target is a channel to the target through the proxy, in confirm mode.
func (s *scene) target() *amqp.Channel {
	s.t.Helper()
	conn, err := amqp.Dial(s.through)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return ch
}
