package sweeping

import (
	"bufio"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

const (
	// batch is how many messages may be replayed twice when a replay is killed.
	batch = 256
	// kills is how often a replay is killed before one may end.
	kills = 3
)

// A replay that is killed loses nothing, and replays at most one batch twice.
func TestReplayKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.fill(*messages)
	killed := 0
	for killed < kills {
		c := s.command("failed", "replay", queue)
		before := s.depth(queue)
		c.start(t)
		lab.Eventually(t, timeout, "messages are replayed", func() bool {
			select {
			case <-c.ended:
				return true
			default:
				return s.depth(queue) > before+*messages/20
			}
		})
		if !c.kill() {
			if c.err != nil {
				t.Fatalf("the replay ended with %v\n%s", c.err, c.errs.String())
			}
			t.Log("a replay ended before it was killed; all fail once more")
			s.purge(queue)
			s.fill(*messages)
			killed = 0
			continue
		}
		killed++
		s.released()
		both := 0
		lab.Eventually(t, timeout, "all messages are in one of both queues", func() bool {
			both = s.depth(queue) + s.depth(failed)
			return both >= *messages
		})
		if both > *messages+killed*batch {
			t.Fatalf("after kill %d: got %d messages in both queues, want at most %d more than %d", killed, both, killed*batch, *messages)
		}
	}
	s.command("failed", "replay", queue).run(t)
	if n := s.depth(failed); n != 0 {
		t.Errorf("after the last replay: got %d messages in the failed queue, want none", n)
	}
	seen := make(map[string]int)
	all := s.drain(queue)
	for _, id := range all {
		seen[id]++
	}
	for i := range *messages {
		if seen[strconv.Itoa(i)] == 0 {
			t.Fatalf("message %d is lost", i)
		}
	}
	if twice := len(all) - *messages; twice > kills*batch {
		t.Errorf("got %d messages twice after %d kills, want at most %d each time", twice, kills, batch)
	}
	t.Logf("kills=%d messages=%d lost=0 twice=%d", kills, *messages, len(all)-*messages)
}

// An export that is killed while it holds messages leaves all of them in the failed queue.
func TestExportKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.fill(*messages)
	in, out := io.Pipe()
	c := s.command("failed", "export", queue)
	c.Stdout = out
	c.start(t)
	lines := bufio.NewScanner(in)
	for range *messages / 2 {
		if !lines.Scan() {
			t.Fatalf("the export has ended: %v\n%s", lines.Err(), c.errs.String())
		}
	}
	_ = c.Process.Kill()
	_ = in.Close() // what was copied from the process goes nowhere
	c.kill()
	s.released()
	kit.WantDepth(t, s.rabbit, s.ch, failed, *messages)
	// What lay in different windows may have changed places.
	seen := make(map[string]int)
	for _, id := range s.drain(failed) {
		seen[id]++
	}
	if len(seen) != *messages {
		t.Errorf("got %d different messages, want %d", len(seen), *messages)
	}
}

// A discard that is killed continues when it is run again. It has discarded no message that it was not to discard.
func TestDiscardKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for killed := false; !killed; {
		s.fill(*messages)
		c := s.command("failed", "discard", queue, "--header", "odd=yes", "--yes")
		c.start(t)
		lab.Eventually(t, timeout, "messages are read", func() bool { return s.depth(failed) < *messages })
		if killed = c.kill(); !killed {
			if c.err != nil {
				t.Fatalf("the discard ended with %v\n%s", c.err, c.errs.String())
			}
			t.Log("a discard ended before it was killed; all fail once more")
			s.purge(failed)
		}
	}
	s.released()
	// The broker may take a while to have everything back.
	lab.Eventually(t, 5*time.Minute, "the others are left", func() bool {
		s.command("failed", "discard", queue, "--header", "odd=yes", "--yes").run(t)
		return s.depth(failed) == *messages/2
	})
	seen := make(map[string]int)
	for _, id := range s.drain(failed) {
		seen[id]++
	}
	for i := range *messages {
		if got, want := seen[strconv.Itoa(i)], 1-i%2; got != want {
			t.Fatalf("message %d is in the failed queue %d times, want %d", i, got, want)
		}
	}
	if len(seen) != *messages/2 {
		t.Errorf("got %d different messages, want %d", len(seen), *messages/2)
	}
}

// released waits until the broker has taken back what a killed process held.
func (s *scene) released() {
	s.t.Helper()
	lab.Eventually(s.t, time.Minute, "the broker has taken everything back", func() bool {
		q, err := s.ch.QueueDeclarePassive(failed, true, false, false, false, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		return q.Consumers == 0
	})
}

// drain empties a queue, and returns the ids in order.
func (s *scene) drain(queue string) (ids []string) {
	s.t.Helper()
	n := s.depth(queue)
	ch := s.rabbit.Channel()
	defer ch.Close()
	if err := ch.Qos(1000, 0, false); err != nil {
		s.t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for len(ids) < n {
		d := kit.Receive(s.t, deliveries, "message")
		ids = append(ids, d.MessageId)
		if len(ids)%500 == 0 || len(ids) == n {
			if err := d.Ack(true); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	return ids
}
