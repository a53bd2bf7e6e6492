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

// tailPause is the pause between tries to reach the management API again.
const tailPause = time.Second

func (c *command) tail() *cobra.Command {
	t := &tailing{command: c}
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show copies of messages as they are routed",
		Long: `Tail shows copies of messages that an exchange routes to queues, or that arrive in a queue, from now
on. It takes no message away from a consumer: the broker makes the copies for a queue of tail's own,
which has the same bindings as the others and is deleted when tail ends. Tail reads these bindings
from the management API.

It shows every message that the exchange routes to a durable queue; with --queue, every message that
arrives in the queue through one of its bindings, including retries and returned messages. It does not
show unroutable messages, messages that are routed to other exchanges, messages that were published
before or that arrive through later bindings, messages in failed or delay queues, and messages that are
published to a queue by its name, through the default exchange. If tail is so slow that 10,000 messages
wait for it, it misses the oldest. It does not show who consumes a message, and with which outcome.

With --key, tail binds its queue with your keys, and needs no management API. For the broker it is then
a queue like any other: a message that matches, and for which no other queue is bound, counts as
routed. It is confirmed, is not kept in rehop.unrouted, and is lost when tail ends. The same is true
for messages of a binding whose queue is deleted, or unbound, while tail runs. On a direct exchange a
key must match exactly; # matches everything on a topic exchange only.`,
		Example: `  rehop tail --exchange order
  rehop tail --exchange order --key 'order.#'
  rehop tail --queue order-summary --json --count 10`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&t.watch.Exchange, "exchange", "e", "", "exchange to watch; without --key this needs the management API, which knows its bindings")
	flags.StringArrayVarP(&t.watch.Keys, "key", "k", nil, "bind with this key instead; may be given more than once. Messages for which no other queue is bound are lost then")
	flags.StringVarP(&t.watch.Queue, "queue", "q", "", "queue to watch; needs the management API, which knows its bindings")
	flags.IntVarP(&t.count, "count", "n", 0, "end after this many messages (default no limit)")
	flags.DurationVar(&t.limit, "for", 0, "end after this duration (default no limit)")
	flags.IntVar(&t.body, "body", 200, "how many bytes of each body to show; 0 is all")
	return cmd
}

// errEnough ends a watch that has seen as much as it should.
var errEnough = errors.New("enough")

func (t *tailing) run(ctx context.Context) error {
	switch {
	case (t.watch.Exchange == "") == (t.watch.Queue == ""):
		return usage("set either --exchange or --queue")
	case t.watch.Queue != "" && len(t.watch.Keys) > 0:
		return usage("--key needs --exchange; a queue is watched with the bindings that it has")
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
		t.end = time.AfterFunc(t.reach.connectTimeout, cancel) // until it has begun
		defer t.end.Stop()
	}
	t.watch.Began = t.began
	for {
		err := a.Watch(limited, t.watch, t.show)
		switch {
		case errors.Is(err, errEnough), t.begun && limited.Err() != nil && ctx.Err() == nil, ctx.Err() != nil && t.count == 0:
			return nil // at the limit of its flags, or by ^C if there is none
		case errors.Is(err, admin.ErrNoManagement) && t.watch.Queue == "":
			err := t.explain(err)
			return &exitError{codeOf(ctx, err), fmt.Errorf("%w. Or use --key; see rehop tail --help for what that means for unroutable messages", err)}
		case errors.Is(err, admin.ErrWatchEnded):
			t.notice("the connection was lost; messages are not shown until it is back")
		case t.begun && away(err):
			if err := rabbit.Pause(limited, tailPause); err != nil && ctx.Err() != nil {
				return err
			}
		case limited.Err() != nil && ctx.Err() == nil:
			return unreachable(fmt.Errorf("the broker has not answered within %v: %w", t.reach.connectTimeout, err))
		default:
			return t.explain(interruption(ctx, err))
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
		t.notice("while this runs, a message with such a key for which no other queue is bound counts as routed: it is confirmed, and lost when this ends")
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
