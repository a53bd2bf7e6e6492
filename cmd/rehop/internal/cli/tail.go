package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/rabbit"
)

// tailing is a run of tail.
type tailing struct {
	*command
	watch admin.WatchOptions
	count int
	limit time.Duration
	body  int
	seen  int
	begun bool
	end   *time.Timer // ends the watch; nil: nothing does
}

// tailPause is between tries to find a management API that was there.
const tailPause = time.Second

func (c *command) tail() *cobra.Command {
	t := &tailing{command: c}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show messages as they pass, without taking them away",
		Long: `Tail shows copies of what an exchange routes to queues, or of what comes to a queue, from
now on. It takes no message away from anybody: the broker makes the copies for a queue of tail's
own, which has the same bindings as the others and is gone when tail ends. The management API
tells these bindings.

What it sees: every message that the exchange routes to a queue that lasts; with --queue, every
message that comes to the queue by one of its bindings, retries and returns included. What it
cannot see: what no queue is bound for, what other exchanges are bound for, what was published
before or comes by bindings that were made later, what is in failed or delay queues, and what is
published to a queue by its name, through the default exchange. If it is so slow that 10,000
messages wait for it, it misses the oldest. It shows nothing of who consumes a message, or what
becomes of it.

With --key, tail binds its queue with keys of its own, and needs no management API. To the broker
it is then a queue like any other: a message that matches and that no other queue is bound for
counts as routed. It is confirmed, is not kept in rehop.unrouted, and is gone when tail ends. The
same holds for what comes by a binding whose queue is deleted, or unbound, while tail runs. On a
direct exchange a key is given as it is; # stands for everything on a topic exchange alone.`,
		Example: `  rehop tail --exchange order
  rehop tail --exchange order --key 'order.#'
  rehop tail --queue order-summary --json --count 10`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&t.watch.Exchange, "exchange", "e", "", "exchange to watch; without --key this needs the management API, which knows its bindings")
	flags.StringArrayVarP(&t.watch.Keys, "key", "k", nil, "bind with this key instead; may be given more than once. What no other queue is bound for is lost then")
	flags.StringVarP(&t.watch.Queue, "queue", "q", "", "queue to watch; needs the management API, which knows its bindings")
	flags.IntVarP(&t.count, "count", "n", 0, "end after this many messages (default never)")
	flags.DurationVar(&t.limit, "for", 0, "end this long after watching has begun (default never)")
	flags.IntVar(&t.body, "body", 200, "how many bytes of each body to show; 0 is all")
	return cmd
}

// errEnough ends a watch that has seen as much as it should.
var errEnough = errors.New("enough")

func (t *tailing) run(ctx context.Context) error {
	switch {
	case (t.watch.Exchange == "") == (t.watch.Queue == ""):
		return usage("name what to watch: --exchange or --queue, one of them")
	case t.watch.Queue != "" && len(t.watch.Keys) > 0:
		return usage("--key goes with --exchange; a queue is watched by the bindings that it has")
	case t.count < 0 || t.limit < 0 || t.body < 0:
		return usage("--count, --for and --body must not be negative")
	}
	a, err := t.openAdmin(ctx, queueLayouts{})
	if err != nil {
		return err
	}
	defer a.Close()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.limit > 0 {
		t.end = time.AfterFunc(t.reach.patience, cancel) // until it has begun
		defer t.end.Stop()
	}
	t.watch.Began = t.began
	for {
		err := a.Watch(limited, t.watch, t.show)
		switch {
		case errors.Is(err, errEnough), t.begun && limited.Err() != nil && ctx.Err() == nil, ctx.Err() != nil && t.count == 0:
			return nil // as it was told, or by ^C, which is how it ends when it was told nothing
		case errors.Is(err, admin.ErrNoManagement) && t.watch.Queue == "":
			return usage("the management API is needed for the bindings of the exchange: set its URL with --management or $%s, or name a --key; what that means "+
				"for messages that no other queue is bound for is said by rehop tail --help", envManagement)
		case errors.Is(err, admin.ErrWatchEnded):
			t.notice("the connection was lost; what passes until it is back is not seen")
		case t.begun && away(err):
			if err := rabbit.Pause(limited, tailPause); err != nil && ctx.Err() != nil {
				return err
			}
		case limited.Err() != nil && ctx.Err() == nil:
			return unreachable(fmt.Errorf("the broker has not answered within %v: %w", t.reach.patience, err))
		default:
			return explain(interruption(ctx, err))
		}
	}
}

func (t *tailing) began() {
	if t.end != nil && !t.begun {
		t.end.Reset(t.limit)
	}
	t.begun = true
	t.notice("watching %s; ^C ends it", t.what())
	if len(t.watch.Keys) > 0 {
		t.notice("while this runs, a message with such a key that no other queue is bound for counts as routed: it is confirmed, and gone when this ends")
	}
}

func (t *tailing) what() string {
	if t.watch.Queue != "" {
		return fmt.Sprintf("queue %q", t.watch.Queue)
	}
	return fmt.Sprintf("exchange %q", t.watch.Exchange)
}

func (t *tailing) show(m admin.Message) error {
	if err := t.print(m); err != nil {
		return err
	}
	if t.seen++; t.seen == t.count {
		return errEnough
	}
	return nil
}

func (t *tailing) print(m admin.Message) error {
	if t.json {
		v, err := viewOf(m)
		if err != nil {
			return err
		}
		return t.printLine(v)
	}
	parts := []string{time.Now().Format("15:04:05.000"), plain(m.Exchange + " " + m.Key), plain(m.ID)}
	if m.Attempts > 0 {
		parts = append(parts, fmt.Sprintf("after attempt %d", m.Attempts))
	}
	if len(m.Headers) > 0 {
		parts = append(parts, plain(headersText(m.Headers)))
	}
	return t.printf("%s\n    %s\n", t.faint(strings.Join(parts, "  ")), plain(bodyText(m.Body, t.body)))
}
