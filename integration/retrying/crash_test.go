package retrying

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/layout"
)

// The environment of a child process.
const (
	childURL  = "REHOP_TEST_CHILD_URL"
	childType = "REHOP_TEST_CHILD_QUEUE_TYPE"
)

const crashLimit = 8

func crashing(queueType layout.QueueType, handle rehop.HandlerFunc) rehop.Subscriber {
	return rehop.Subscriber{Queue: "q", QueueType: queueType, Concurrency: 2, Prefetch: 16, CrashLimit: crashLimit,
		Retry: rehop.NoRetry(), Handler: handle}
}

// child is a process that dies of poison. It prints on its standard output what it has handled, and
// ends in good order when its standard input ends.
func child() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*kit.Limit)
	defer cancel()
	fatal := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	c, err := rehop.Open(ctx, rehop.Config{URL: os.Getenv(childURL), Logger: slog.New(slog.DiscardHandler)})
	fatal(err)
	_, err = c.Subscribe(ctx, crashing(layout.QueueType(os.Getenv(childType)), func(_ context.Context, d *rehop.Delivery) error {
		if d.Type == "poison" {
			fmt.Println("poisoned")
			os.Exit(1)
		}
		fmt.Println("handled", d.ID)
		return nil
	}))
	fatal(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	fatal(c.Close(ctx))
}

func TestCrashLoopEnds(t *testing.T) {
	t.Parallel()
	crashLoopEnds(t, crashLimit, func(t *testing.T, _ *lab.Rabbit, c *rehop.Client, messages []rehop.Message) {
		kit.Publish(t, c, messages...)
	})
}

// A message that was dead-lettered brings along how often it was delivered elsewhere, from RabbitMQ 4.0 on. It is given up as any other, a
// little later.
func TestCrashLoopOfDeadLettersEnds(t *testing.T) {
	t.Parallel()
	const deliveries = 14 // more than the limit of crashes
	crashLoopEnds(t, crashLimit+3, func(t *testing.T, r *lab.Rabbit, c *rehop.Client, messages []rehop.Message) {
		kit.Queue(t, r.Channel(), "source", amqp.Table{"x-queue-type": "quorum", "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q",
			"x-delivery-limit": deliveries - 1})
		for i := range messages {
			messages[i].Key = "source"
		}
		kit.Publish(t, c, messages...)
		takes(t, r, len(messages), deliveries, false)
	})
}

// Anybody can write what the broker writes on a dead letter.
func TestCrashLoopOfForgedDeadLettersEnds(t *testing.T) {
	t.Parallel()
	crashLoopEnds(t, crashLimit+3, func(t *testing.T, r *lab.Rabbit, _ *rehop.Client, messages []rehop.Message) {
		ch := r.Channel()
		for _, m := range messages {
			err := ch.PublishWithContext(kit.Context(t), "", "q", false, false, amqp.Publishing{MessageId: m.ID, Type: m.Type, DeliveryMode: amqp.Persistent,
				Headers: amqp.Table{"x-last-death-queue": "other", "x-last-death-reason": "rejected", "x-acquired-count": int64(1), "x-delivery-count": int64(1),
					"x-death": []any{amqp.Table{"queue": "other", "reason": "rejected", "count": int64(1_000_000)}}}})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// crashLoopEnds has processes die of one among many messages that feed puts into the queue. That one ends in the failed queue after
// the given number of crashes at most.
func crashLoopEnds(t *testing.T, mostCrashes int, feed func(*testing.T, *lab.Rabbit, *rehop.Client, []rehop.Message)) {
	kit.EachType(t, func(t *testing.T, queueType layout.QueueType) {
		const innocents = 40
		r := lab.Single(t)
		ch := r.Channel()
		c := kit.OpenQuick(t, r, rehop.Config{})
		kit.Stop(t, kit.Subscribe(t, c, crashing(queueType, kit.Nop)))
		messages := kit.Numbered("q", innocents+1)
		messages[5].ID, messages[5].Type = "poison", "poison"
		feed(t, r, c, messages)

		var handled kit.Tally
		var history []string      // output of the children, to be shown when the test fails
		finished := func() bool { // every message is accounted for
			failed := r.Depth(ch, "q.failed")
			return failed > 0 && handled.Len()+failed >= innocents+1 && r.Depth(ch, "q") == 0
		}
		crashes := 0
		for !finished() {
			if crashes > mostCrashes {
				t.Fatalf("crashes: got %d and no end, want at most %d; handled %d of %d, failed %d, left %d", crashes, mostCrashes,
					handled.Len(), innocents, r.Depth(ch, "q.failed"), r.Depth(ch, "q"))
			}
			died, lines := runChild(t, r, queueType, &handled, finished)
			if died {
				crashes++
			}
			history = append(history, strings.Join(lines, ", "))
		}
		if crashes < 2 {
			t.Errorf("crashes: got %d, want some", crashes)
		}
		var ids []string
		d := kit.Take(t, ch, "q.failed")
		for next, ok, err := d, true, error(nil); ok && err == nil; next, ok, err = ch.Get("q.failed", true) {
			ids = append(ids, next.MessageId+" ("+kit.Failure(next).Error+")")
		}
		if got := handled.Len(); got != innocents {
			t.Errorf("innocents handled: got %d, want %d", got, innocents)
		}
		if len(ids) != 1 {
			t.Errorf("failed queue: got %q, want the poison alone", ids)
		}
		if f := kit.Failure(d); d.MessageId != "poison" || f.Kind != "crash" || f.Queue != "q" || !strings.Contains(f.Error, "delivered") {
			t.Errorf("failed: got id %q, kind %q, queue %q, error %q; want poison, crash, q and the reason", d.MessageId, f.Kind, f.Queue, f.Error)
		}
		if t.Failed() {
			t.Logf("the children said:\n%s", strings.Join(history, "\n"))
		}
		t.Logf("%d crashes, %d handler calls for %d innocents", crashes, handled.Sum(), innocents)
	})
}

// runChild runs a child until it dies, or until all is done. It reports whether it died, and its output.
func runChild(t *testing.T, r *lab.Rabbit, queueType layout.QueueType, handled *kit.Tally, finished func() bool) (died bool, said []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childURL+"="+r.URL, childType+"="+string(queueType))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(stdout)
		for lines.Scan() {
			said = append(said, strings.TrimPrefix(lines.Text(), "handled "))
			if id, ok := strings.CutPrefix(lines.Text(), "handled "); ok {
				handled.Add(id)
			}
		}
		ended <- cmd.Wait()
	}()
	var exit error
	over := false
	lab.Eventually(t, kit.Limit, "the child dies, or all is done", func() bool {
		select {
		case exit = <-ended:
			over = true
			return true
		default:
			return finished()
		}
	})
	if !over {
		_ = stdin.Close()
		exit = kit.Receive(t, ended, "the child ends")
	}
	if exit != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("child: got %v, want exit code 0 or 1", exit)
	}
	return exit != nil, said
}
