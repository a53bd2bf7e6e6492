// Package differential does the same random things on RabbitMQ and on the embedded broker, and compares all that clients see. The embedded broker follows
// the release of the real one, which REHOP_RABBITMQ chooses.
package differential

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/brokertest"
	"github.com/rehop/rehop/integration/lab"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed")
	seeds     = flag.Int("seeds", 8, "how many seeds")
	length    = flag.Int("steps", 80, "how many steps each")
	minimise  = flag.Bool("minimise", false, "leave out of a failing sequence what it does not need")
)

// The first seeds are always the same, so that a failure is one of the change and not of the day. More of them: -args -seeds=1000 -seed=…
func TestDifferential(t *testing.T) {
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprintf("seed%d", seed), func(t *testing.T) { compare(t, seed) })
	}
}

// compare runs the steps of a seed. What differs must differ again: RabbitMQ promises no order between its queues, and
// a fence shows only what is to be seen from outside.
func compare(t *testing.T, seed uint64) {
	steps := generate(seed, *length, lab.Release() >= broker.RabbitMQ43)
	first := run(t, seed, steps)
	if first == nil {
		return
	}
	steps = steps[:min(first.step+1, len(steps))]
	again := run(t, seed, steps)
	if again == nil {
		t.Logf("seed %d: differed at step %d, but not when it was run again:\n%s", seed, first.step, first.text)
		return
	}
	if *minimise {
		steps, again = minimised(t, seed, steps, again)
	}
	var list strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&list, "  %3d %s\n", i, s)
	}
	t.Errorf("seed %d: the brokers differ at step %d:\n%s\nafter these steps:\n%s", seed, again.step, again.text, list.String())
}

// minimised leaves out steps as long as the brokers differ.
func minimised(t *testing.T, seed uint64, steps []step, known *difference) ([]step, *difference) {
	for size := len(steps) / 2; size > 0; size /= 2 {
		for from := len(steps) - size; from >= 0; from -= size {
			fewer := slices.Delete(slices.Clone(steps), from, from+size)
			if d := run(t, seed, fewer); d != nil {
				steps, known = fewer[:min(d.step+1, len(fewer))], d
				from = min(from, len(steps))
			}
		}
	}
	return steps, known
}

// difference is what the brokers do not agree on.
type difference struct {
	step int // the number of steps: in what is left at the end
	text string
}

// run does the steps on both brokers, on virtual hosts of their own.
func run(t *testing.T, seed uint64, steps []step) (found *difference) {
	t.Run("run", func(t *testing.T) {
		rabbit := lab.Single(t)
		address, err := url.Parse(rabbit.URL)
		if err != nil {
			t.Fatal(err)
		}
		ours, err := newSession("embedded", rabbit.Vhost, queueNames, embedded(t, seed, rabbit.Vhost))
		t.Cleanup(ours.close)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := newSession("RabbitMQ", rabbit.Vhost, queueNames, func() (net.Conn, error) { return net.Dial("tcp", address.Host) })
		t.Cleanup(theirs.close)
		if err != nil {
			t.Fatal(err)
		}
		found, err = (&match{ours, theirs}).play(steps)
		if err != nil {
			t.Fatal(err)
		}
	})
	return found
}

// embedded starts the broker, every other time with a directory.
func embedded(t *testing.T, seed uint64, vhost string) func() (net.Conn, error) {
	t.Helper()
	server := &broker.Server{Compat: lab.Release(), Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if seed%2 == 0 {
		server.Dir = t.TempDir()
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	control, err := brokertest.Open(server)
	if err == nil {
		err = control.AddVhost(vhost)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() (net.Conn, error) { return server.Dial(context.Background(), "", "") }
}

// match has both brokers do the same.
type match struct{ ours, theirs *session }

func (m *match) both() []*session { return []*session{m.ours, m.theirs} }

func (m *match) play(steps []step) (*difference, error) {
	for i, s := range steps {
		target := m.target(s)
		for _, session := range m.both() {
			if err := session.begin(s, target); err != nil {
				return nil, fmt.Errorf("step %d, %s: %w", i, s, err)
			}
		}
		text, err := m.agree()
		if err != nil {
			return nil, fmt.Errorf("step %d, %s: %w", i, s, err)
		}
		if text != "" {
			return &difference{i, text}, nil
		}
	}
	for _, session := range m.both() {
		if err := session.leave(); err != nil {
			return nil, err
		}
	}
	if text, err := m.agree(); err != nil || text != "" {
		return &difference{len(steps), text}, err
	}
	for _, session := range m.both() {
		if err := session.drain(); err != nil {
			return nil, err
		}
	}
	if text := unlike(m.ours.seen, m.theirs.seen); text != "" {
		return &difference{len(steps), text}, nil
	}
	return nil, nil
}

// target is the delivery that an answer is about.
func (m *match) target(s step) *event {
	if s.answer == nil {
		return nil
	}
	_, ch := m.ours.at(s.at)
	if len(ch.unacked) == 0 {
		return nil
	}
	target := ch.unacked[s.answer.pick%len(ch.unacked)].of
	return &target
}

// RabbitMQ does what one process asks of another in its own time, and answers questions about a queue ahead of what the queue
// still has to do. So they have to agree twice in a row, which no chance brings about, and may take a while to.
const (
	agreements = 2
	lag        = 2 * time.Second
)

// agree returns what the brokers do not agree on, in the end.
func (m *match) agree() (text string, err error) {
	deadline := time.NewTimer(lag)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for agreed := 0; agreed < agreements; {
		ours, err := m.ours.observe()
		if err != nil {
			return "", err
		}
		theirs, err := m.theirs.observe()
		if err != nil {
			return "", err
		}
		text = unlike(m.ours.seen, m.theirs.seen) + unlike(ours, theirs)
		if text == "" {
			agreed++
			continue
		}
		agreed = 0
		select {
		case <-deadline.C:
			return text, nil
		case <-tick.C:
		}
	}
	return "", m.compareTags()
}

// compareTags notes the channels on which the same deliveries have different tags, for several queues serve them.
func (m *match) compareTags() error {
	for i := range connections * channels {
		_, ours := m.ours.at(place{i / channels, i % channels})
		_, theirs := m.theirs.at(place{i / channels, i % channels})
		if len(ours.unacked) != len(theirs.unacked) {
			return errors.New("the same deliveries leave different ones open")
		}
		if !slices.Equal(ours.unacked, theirs.unacked) {
			ours.shuffled, theirs.shuffled = true, true
		}
	}
	return nil
}

// unlike shows the events that only one of two brokers has.
func unlike(ours, theirs []event) string {
	if slices.Equal(ours, theirs) {
		return ""
	}
	var text strings.Builder
	show := func(who string, some, others []event) {
		for _, e := range some {
			if !slices.Contains(others, e) {
				fmt.Fprintf(&text, "only %s: %s: %s\n", who, e.lane, e.text)
			}
		}
	}
	show("embedded", ours, theirs)
	show("RabbitMQ", theirs, ours)
	if text.Len() == 0 {
		fmt.Fprintf(&text, "other order or number:\n  embedded %v\n  RabbitMQ %v\n", ours, theirs)
	}
	return text.String()
}
