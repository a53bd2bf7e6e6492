package flow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// ledger is a log that a test reads.
type ledger struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *ledger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count is how many lines have all of these texts.
func (l *ledger) count(texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			n++
		}
	}
	return n
}

// other does something on a channel of another program.
func (s *stage) other(do func(*amqp.Channel) error) {
	s.Helper()
	dial := s.broker.Config().Dial
	conn, err := amqp.DialConfig("amqp://guest:guest@localhost/", amqp.Config{Dial: func(network, addr string) (net.Conn, error) {
		return dial(context.Background(), network, addr)
	}})
	if err != nil {
		s.Fatal(err)
	}
	ch, err := conn.Channel()
	if err == nil {
		err = errors.Join(do(ch), conn.Close())
	}
	if err != nil {
		s.Fatal(err)
	}
}

// occupy declares a queue as another program does.
func (s *stage) occupy(queue string) {
	s.Helper()
	s.other(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": 5})
		return err
	})
}

func (s *stage) free(queue string) {
	s.Helper()
	s.other(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
}

// keepTrying does what the service does: it tries again when something is due, until nothing is.
func (s *stage) keepTrying(limit time.Duration) {
	for end := time.Now().Add(limit); ; {
		at, due := s.runner.RetryAt()
		if !due || at.After(end) {
			return
		}
		time.Sleep(time.Until(at))
		s.runner.Retry(s.Context())
	}
}

// A flow whose queue exists with other settings does not keep others from running. It is reported, tried again, and runs when somebody has
// removed the difference.
func TestRefusedFlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, log := newStage(t), &ledger{}
		s.runner.Logger = slog.New(slog.NewTextHandler(log, nil))
		s.occupy("b")
		const flows = "flows:\n  a: {target: {forward: {key: c}}}\n  b: {target: {forward: {key: c}}}\n  c: {target: {command: 'true'}}\n"
		if err := s.runner.Start(t.Context(), s.file(flows)); err != nil {
			t.Fatal(err)
		}
		if err := s.runner.AwaitSettled(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.publish(rehop.Message{ID: "1", Key: "a"})
		s.broker.AwaitEmpty("a")
		s.broker.AwaitEmpty("c")
		got := s.runner.Status()
		if got.Ready() || len(got.Flows) != 3 {
			t.Fatalf("got %+v, want three flows that are not all ready", got)
		}
		for i, want := range []string{Consuming, Refused, Consuming} {
			if state := got.Flows[i].State(); state != want {
				t.Errorf("flow %s is %s, want %s", got.Flows[i].Flow, state, want)
			}
		}
		for _, want := range []string{`queue "b" already exists with `, "(406)", `existing-queue: true in flow "b"`, "rehop topology migrate b rehop.yaml"} {
			if text := got.Flows[1].Error; !strings.Contains(text, want) || strings.Contains(text, "ExistingQueue") || strings.Contains(text, "delete") {
				t.Errorf("got %q, want it to say %q, in the words of the file", text, want)
			}
		}
		s.keepTrying(time.Hour)
		if first, still := log.count("the broker refuses the flow", "flow=b"), log.count("still refuses", "flow=b", "tries="); first != 1 || still < 5 || still > 6 {
			t.Errorf("within an hour, %d lines are about the refusal and %d about that it lasts; want 1, and one every ten minutes", first, still)
		}

		s.free("b") // as a migration does
		s.keepTrying(time.Hour)
		if err := s.runner.AwaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := log.count("the broker accepts the flow now", "flow=b"); n != 1 {
			t.Errorf("%d lines are about the end of the refusal, want 1", n)
		}
		s.publish(rehop.Message{ID: "2", Key: "b"})
		s.broker.AwaitEmpty("b")
		s.broker.AwaitEmpty("c")
		if n := s.runner.Counts(); n.Done != 4 {
			t.Errorf("got %+v, want 4 messages done", n)
		}
	})
}

// A refused flow does not stand in the way of a reload, and one of its changes can be the cure.
func TestReloadWithARefusedFlow(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"same connection": "", "another connection": "exchanges: {x: topic}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			s.occupy("b")
			s.occupy("c")
			s.occupy("e")
			const flows = "flows:\n  a: {concurrency: %d, target: {forward: {key: z}}}\n  b: {existing-queue: %t, target: {forward: {key: z}}}\n  c: {target: {forward: {key: z}}}\n"
			if err := s.runner.Start(t.Context(), s.file(flows, 1, false)); err != nil {
				t.Fatal(err)
			}
			states := func() string {
				var all []string
				for _, f := range s.runner.Status().Flows {
					all = append(all, f.Flow+" "+f.State())
				}
				return strings.Join(all, ", ")
			}
			s.reload(more+flows, 2, false)
			if got, want := states(), "a consuming, b refused, c refused"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			s.reload(more+flows, 2, true)
			if got, want := states(), "a consuming, b consuming, c refused"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			// A change that is refused changes nothing.
			if _, err := s.runner.Reload(t.Context(), s.file(more+flows+"  d: {queue: c2, target: {forward: {key: z}}}\n  e: {target: {forward: {key: z}}}\n", 3, true)); err == nil {
				t.Error("a flow that is refused was accepted by a reload")
			}
			if got, want := states(), "a consuming, b consuming, c refused"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			s.reload("%sflows: {a: {target: {forward: {key: z}}}}", more)
			if got, want := states(), "a consuming"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if _, due := s.runner.RetryAt(); due {
				t.Error("a flow that is not in the file any more is tried again")
			}
		})
	}
}

// An exchange of the list that exists with other settings is left out until it can be declared; flows run meanwhile.
func TestRefusedExchange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, log := newStage(t), &ledger{}
		s.runner.Logger = slog.New(slog.NewTextHandler(log, nil))
		s.other(func(ch *amqp.Channel) error {
			return ch.ExchangeDeclare("legacy", "direct", true, false, false, false, nil)
		})
		const text = "exchanges: {good: topic, legacy: topic}\nflows:\n  a: {exchange: good, target: {forward: {key: z}}}\n  b: {exchange: legacy, target: {forward: {key: z}}}\n  z: {target: {command: 'true'}}\n"
		if err := s.runner.Start(t.Context(), s.file(text)); err != nil {
			t.Fatal(err)
		}
		if err := s.runner.AwaitSettled(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := s.runner.Status()
		if len(got.Exchanges) != 1 || got.Exchanges[0].Exchange != "legacy" || got.Ready() {
			t.Fatalf("got %+v, want that legacy is refused", got)
		}
		if text := got.Exchanges[0].Error; !strings.Contains(text, `exchange "legacy" already exists with type = direct, not topic (406); to use it unchanged, remove it from exchanges`) {
			t.Errorf("got %q, want the cure", text)
		}
		if text := got.Flows[1].Error; !strings.Contains(text, `set existing-exchange: true in flow "b", or exchange-type: direct`) {
			t.Errorf("got %q, want the cure", text)
		}
		s.publish(rehop.Message{ID: "1", Exchange: "good", Key: "k"})
		s.broker.AwaitEmpty("a")
		s.keepTrying(5 * time.Minute)
		s.other(func(ch *amqp.Channel) error { return ch.ExchangeDelete("legacy", false, false) })
		s.keepTrying(time.Hour)
		if err := s.runner.AwaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := log.count("the broker refuses the exchange"); n != 1 {
			t.Errorf("%d lines are about the exchange, want 1", n)
		}
		s.publish(rehop.Message{ID: "2", Exchange: "legacy", Key: "k"})
		s.broker.AwaitEmpty("b")
		s.broker.AwaitEmpty("z")
	})
}

// A flow that is refused when the broker comes back is reported like one that is refused at the start.
func TestRefusedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.occupy("b")
		s.broker.Down()
		if err := s.runner.Start(t.Context(), s.file("flows:\n  a: {target: {forward: {key: z}}}\n  b: {target: {forward: {key: z}}}\n")); err != nil {
			t.Fatal(err)
		}
		s.broker.Up()
		if err := s.runner.AwaitSettled(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := s.runner.Status().Flows; got[0].State() != Consuming || got[1].State() != Refused || !strings.Contains(got[1].Error, `existing-queue: true in flow "b"`) {
			t.Errorf("got %+v, want that a consumes and b is refused, with the cure", got)
		}
		s.free("b")
		if err := s.runner.AwaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// While there is no connection nothing is tried: a flow that begins then would be refused out of sight.
func TestNoRetryWithoutABroker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		s.occupy("b")
		if err := s.runner.Start(t.Context(), s.file("flows: {b: {target: {forward: {key: z}}}}")); err != nil {
			t.Fatal(err)
		}
		s.broker.Down()
		s.await(func(now Status) bool { return !now.connected() })
		tries := s.runner.current.refused["b"].tries
		s.keepTrying(time.Minute)
		if got := s.runner.current.refused["b"]; got == nil || got.tries != tries {
			t.Errorf("got %+v, want that it was not tried again", got)
		}
		s.broker.Up()
		s.free("b")
		s.keepTrying(time.Hour)
		if err := s.runner.AwaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Errors about what exists are in the words of a file, and others stay as they are.
func TestExplain(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	if Explain(plain) != plain || explainFlow("f", config.Flow{}, plain) != plain || explainExchange("x", plain) != plain {
		t.Error("an error of another kind was changed")
	}
	for want, refused := range map[string]*rehop.TopologyError{
		`queue "q" already exists with x = 1, not 2 (406); to use it unchanged, set existing-queue: true of the flow; to give it the settings of the file, run: rehop topology migrate q`: {Object: "queue", Name: "q", Code: 406, Argument: "x", Have: "1", Want: "2"},
		`exchange "e" already exists with internal = true, not false (406); to use it unchanged, set existing-exchange: true of the flow`:                                                 {Object: "exchange", Name: "e", Code: 406, Argument: "internal", Have: "true", Want: "false"},
		`queue "rehop.wait" already exists with x = 1, not 2 (406); all programs of a virtual host share it, and need the same queue-type in their files`:                                 {Object: "queue", Name: "rehop.wait", Code: 406, Argument: "x", Have: "1", Want: "2"},
	} {
		err := Explain(fmt.Errorf("subscribe: %w", refused))
		if err.Error() != want {
			t.Errorf("got\n%s\nwant\n%s", err, want)
		}
		if !errors.Is(err, refused) || Explain(err) != err {
			t.Errorf("%v: the error of the broker is hidden, or it is explained twice", err)
		}
	}
}
