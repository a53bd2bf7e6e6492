package errorqueues

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

const (
	messages = 3000
	// batch is how many messages may be replayed twice when a replay is killed.
	batch = 256
	// kills is how often a replay is killed before one may end.
	kills   = 3
	timeout = 10 * time.Minute
)

// command is a run of rehop.
type command struct {
	*exec.Cmd
	errs  bytes.Buffer
	ended chan struct{}
	err   error // read after ended
}

func start(t *testing.T, r *lab.Rabbit, args ...string) *command {
	t.Helper()
	c := &command{Cmd: exec.Command(kit.Program(t), args...), ended: make(chan struct{})}
	c.Env, c.Dir, c.Stderr = append(os.Environ(), "REHOP_BROKER="+r.URL), t.TempDir(), &c.errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = c.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() { c.kill() })
	return c
}

// kill kills it, as kill -9 does, and reports whether it was running until then.
func (c *command) kill() bool {
	_ = c.Process.Kill()
	<-c.ended
	return !c.ProcessState.Exited()
}

// fill puts messages of EasyNetQ, which are wrapped and have no id of their own, into its error queue.
func fill(t *testing.T, r *lab.Rabbit, ch *amqp.Channel, queue string) {
	t.Helper()
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Type: "EasyNetQ.SystemMessages.Error, EasyNetQ",
			Body: fmt.Appendf(nil, `{"RoutingKey":"","Exchange":"","Queue":"orders","Exception":"boom","Message":"%d","DateTime":"2026-03-04T05:06:07Z","BasicProperties":{}}`, i),
		})
		if err != nil {
			t.Fatal(err)
		}
		if i%1000 == 999 && !confirm.Wait() {
			t.Fatalf("message %d was not confirmed", i)
		}
	}
	kit.WantDepth(t, r, ch, queue, messages)
}

// A replay from an error queue that is killed loses nothing, and replays at most one batch twice, also messages without an id.
func TestReplayKilled(t *testing.T) {
	t.Parallel()
	const queue, from = "orders", "EasyNetQ_Default_Error_Queue"
	r := lab.Single(t)
	ch := r.Channel()
	for _, name := range []string{queue, from} {
		if _, err := ch.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
			t.Fatal(err)
		}
	}
	fill(t, r, ch, from)
	for killed := 0; killed < kills; {
		before := r.Depth(ch, queue)
		c := start(t, r, "failed", "replay", "--from", from)
		lab.Eventually(t, timeout, "messages are replayed", func() bool {
			select {
			case <-c.ended:
				return true
			default:
				return r.Depth(ch, queue) > before+messages/20
			}
		})
		if !c.kill() {
			if c.err != nil {
				t.Fatalf("the replay ended with %v\n%s", c.err, c.errs.String())
			}
			t.Log("a replay ended before it was killed; all fail once more")
			if _, err := ch.QueuePurge(queue, false); err != nil {
				t.Fatal(err)
			}
			fill(t, r, ch, from)
			killed = 0
			continue
		}
		killed++
		lab.Eventually(t, timeout, "all messages are in one of both queues", func() bool { return r.Depth(ch, queue)+r.Depth(ch, from) >= messages })
	}
	c := start(t, r, "failed", "replay", "--from", from)
	if <-c.ended; c.err != nil {
		t.Fatalf("the last replay ended with %v\n%s", c.err, c.errs.String())
	}
	kit.WantDepth(t, r, ch, from, 0)
	seen, all := make(map[string]int), r.Depth(ch, queue)
	for range all {
		seen[string(kit.Take(t, ch, queue).Body)]++
	}
	for i := range messages {
		if seen[fmt.Sprint(i)] == 0 {
			t.Fatalf("message %d is lost", i)
		}
	}
	if len(seen) != messages || all-messages > kills*batch {
		t.Errorf("got %d different messages and %d twice after %d kills, want %d, and at most %d twice each time", len(seen), all-messages, kills, messages, batch)
	}
	t.Logf("kills=%d messages=%d lost=0 twice=%d", kills, messages, all-messages)
}
