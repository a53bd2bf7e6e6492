package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/layouts"
)

// desk is the flags that commands for failed messages share: which queue, its layout, and which messages.
type desk struct {
	*command
	origin origin
	layout layoutChoice
	choice choice
}

func (c *command) failed() *cobra.Command {
	return group("failed", "List, show, replay, discard, export and import failed messages",
		`After its last attempt a message goes to the failed queue of its queue. These commands take the name of the queue, not that of the failed queue:
rehop failed ls orders lists the messages in orders.failed. (They understand the name of the failed queue, too.) The orphan queue rehop.orphans has messages whose queue was deleted, and the unrouted queue rehop.unrouted has unroutable messages; use these
names as queue.

With --from, they read any other queue, without the name of a queue: rehop failed ls --from orders_error lists an error queue of another framework, or a dead-letter queue.
They understand the records of Spring, MassTransit, NServiceBus, EasyNetQ, rascal, Sneakers, Kicks, dramatiq and Celery, and x-death. An id that begins with noid- is that of a
message without one: equal messages share it, and a flag or a command that names it means all of them.

With --config, a queue has the layout of the flow that consumes it, so one file can have flows of different layouts. With --layout, all queues have that layout.

RabbitMQ 4.3 can delay messages that are returned to a quorum queue (delayed-retry-type, also by a policy). These commands do not see such messages until the delay is over. With
the management API they report how many there are.

Only one command at a time can read a failed queue. A second one waits up to 5 seconds for the first to end.

The commands groups, group and search read the index of failed messages that rehop up and rehop run keep, and not the broker. rehop runs replays or discards what they find.`,
		c.failedList(), c.failedShow(), c.failedCount(), c.failedReplay(), c.failedDrop(), c.failedExport(), c.failedImport(),
		c.failedGroups(), c.failedGroup(), c.failedSearch())
}

func (c *command) newDesk(cmd *cobra.Command) *desk {
	d := &desk{command: c}
	d.origin.addFlags(cmd.Flags())
	d.layout.addFlags(cmd.Flags())
	d.choice.addFlags(cmd.Flags())
	return d
}

// open connects, and returns the failed messages of the queue that is meant by a name, and the filter for them.
func (d *desk) open(ctx context.Context, name string) (failedSource, admin.Filter, error) {
	filter, err := d.choice.filter(time.Now())
	if err != nil {
		return failedSource{}, filter, err
	}
	s, err := d.openFailures(ctx, d.origin, d.layout, name)
	return s, filter, err
}

// openFailed connects, and returns the queue that is meant by a name: users also type that of its failed queue, which they see in the broker's
// own tools.
func (c *command) openFailed(ctx context.Context, l layoutChoice, name string) (*admin.Admin, string, error) {
	of, err := c.layoutsOf(l, name)
	if err != nil {
		return nil, "", err
	}
	a, err := c.openAdmin(ctx, of)
	if err != nil {
		return nil, "", err
	}
	owner := of.ownerOf(name)
	if owner == "" {
		return a, name, nil
	}
	if _, err := a.Queue(ctx, name); !errors.Is(err, admin.ErrNoQueue) {
		return a, name, nil // it has a failed queue of its own
	}
	return a, owner, nil
}

func (c *command) failedList() *cobra.Command {
	var (
		d     *desk
		limit int
	)
	cmd := &cobra.Command{
		Use:   "ls [queue]",
		Short: "List failed messages, or the queues that have some",
		Long: `Ls lists the messages in the failed queue of a queue, oldest first, and leaves them there. Without a queue it lists the queues that have
failed messages. For that it needs the management API, whose figures are some seconds old.`,
		Args: func(cmd *cobra.Command, args []string) error { return d.origin.needs(cmd, args, "[queue]") },
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return usage("--limit %d must be positive", limit)
			}
			if len(args) == 0 && d.origin.from == "" {
				return d.listQueues(cmd.Context())
			}
			s, filter, err := d.open(cmd.Context(), firstOf(args))
			if err != nil {
				return err
			}
			defer s.close()
			d.noteDelayed(cmd.Context(), s)
			return d.explainFailed(s, d.list(cmd.Context(), s, limit, filter))
		},
	}
	d = c.newDesk(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "list at most this many messages")
	return cmd
}

// noteDelayed reports how many messages the broker delays, which no command sees. It is called before a command reads the queue, because the
// broker may delay the messages that the command returns, too. It needs the management API.
func (c *command) noteDelayed(ctx context.Context, s failedSource) {
	n, err := s.delayed(ctx)
	switch {
	case err == nil && n > 0:
		c.notice("the broker delays %s in %v (delayed-retry-type), which this command does not see; run it again when the delay is over", counted(n, "more message"), s)
	case err != nil && !errors.Is(err, admin.ErrNoManagement) && !errors.Is(err, admin.ErrNoQueue) && !errors.Is(err, admin.ErrNoLayout):
		c.notice("cannot find out whether the broker delays messages in %v: %v", s, err)
	}
}

func (d *desk) list(ctx context.Context, s failedSource, limit int, filter admin.Filter) error {
	messages, err := s.list(ctx, limit+1, filter)
	if err != nil {
		return err
	}
	more := len(messages) > limit
	messages = messages[:min(limit, len(messages))]
	if d.json {
		views, err := viewsOf(messages)
		if err != nil {
			return err
		}
		return d.printJSON(views)
	}
	if len(messages) == 0 {
		return d.printf("none\n")
	}
	if err := d.printMessages(messages); err != nil {
		return err
	}
	if !more {
		return d.printf("\n%s\n", counted(len(messages), "failed message"))
	}
	d.notice("there are more; use --limit to list more")
	return d.printf("\n%s of %s\n", strconv.Itoa(len(messages)), d.total(ctx, s))
}

// total is how many failed messages a queue has. With a filter only those that match are listed, which only a look at all of them could count.
func (d *desk) total(ctx context.Context, s failedSource) string {
	q, err := s.admin.Queue(ctx, s.queue)
	switch {
	case err != nil || s.errors != nil:
		return "more failed messages" // of a queue that no subscription consumes
	case d.choice.isSet():
		return fmt.Sprintf("those that match, among %s", counted(q.Failed, "failed message"))
	}
	return counted(q.Failed, "failed message")
}

// printMessages prints a table. On a narrow terminal a message has two lines, of which the second is cut off.
func (d *desk) printMessages(messages []admin.Message) error {
	var rows [][]string
	if d.Width > 0 && d.Width < wideTable {
		for _, m := range messages {
			rows = append(rows, []string{when(m.FailedAt), m.ID, dash(string(m.Kind)), strconv.Itoa(m.Attempts)})
		}
		return d.print(table{heading: []string{"FAILED", "ID", "KIND", "ATTEMPTS"}, rows: rows, below: func(row int) string {
			return shorten("    "+plain(dash(messages[row].Key)+"  "+messages[row].Error), d.Width)
		}})
	}
	for _, m := range messages {
		rows = append(rows, []string{when(m.FailedAt), m.ID, dash(m.Key), dash(string(m.Kind)), strconv.Itoa(m.Attempts), shorten(m.Error, 80)})
	}
	return d.printTable([]string{"FAILED", "ID", "KEY", "KIND", "ATTEMPTS", "ERROR"}, rows)
}

// wideTable is the width of a terminal from which a message has one line.
const wideTable = 160

// failedCount is a queue with failed messages in JSON output.
type failedCount struct {
	Queue  string `json:"queue"`
	Failed int    `json:"failed"`
}

func (d *desk) listQueues(ctx context.Context) error {
	if d.choice.isSet() {
		return usage("flags that select messages need a queue, as in rehop failed ls orders --kind timeout")
	}
	a, err := d.openQueues(ctx, d.layout)
	if err != nil {
		return err
	}
	defer a.Close()
	o, err := a.Queues(ctx)
	if err != nil {
		return d.explain(err)
	}
	counts := []failedCount{}
	for _, q := range o.Queues {
		counts = append(counts, failedCount{q.Name, q.Failed})
	}
	counts = append(counts, failedCount{layouts.OrphansQueue, o.Orphans}, failedCount{layouts.UnroutedQueue, o.Unrouted})
	for _, r := range o.Recovered {
		counts = append(counts, failedCount{r.Name, r.Messages})
	}
	some := slices.DeleteFunc(counts, func(c failedCount) bool { return c.Failed == 0 })
	if d.json {
		return d.printJSON(some)
	}
	if len(some) == 0 {
		return d.printf("none\n")
	}
	list, total := table{heading: []string{"QUEUE", "FAILED"}}, 0
	for _, count := range some {
		list.rows = append(list.rows, []string{count.Queue, strconv.Itoa(count.Failed)})
		total += count.Failed
	}
	list.counts(1, red)
	if err := d.print(list); err != nil {
		return err
	}
	return d.printf("\n%s\n", counted(total, "failed message"))
}

func (c *command) failedShow() *cobra.Command {
	var (
		from   origin
		chosen layoutChoice
	)
	cmd := &cobra.Command{
		Use:   "show queue id…",
		Short: "Show failed messages in full",
		Long:  `Show prints failed messages with their error, headers and body, and leaves them in the failed queue. rehop failed ls lists the ids.`,
		Args:  func(cmd *cobra.Command, args []string) error { return from.needs(cmd, args, "queue", "id…") },
		RunE: func(cmd *cobra.Command, args []string) error {
			queue, ids := from.split(args)
			s, err := c.openFailures(cmd.Context(), from, chosen, queue)
			if err != nil {
				return err
			}
			defer s.close()
			c.noteDelayed(cmd.Context(), s)
			messages, err := s.list(cmd.Context(), showLimit, admin.Filter{IDs: ids})
			if err != nil {
				return c.explainFailed(s, err)
			}
			if err := c.show(messages); err != nil {
				return err
			}
			return missing(s, ids, messages)
		},
	}
	from.addFlags(cmd.Flags())
	chosen.addFlags(cmd.Flags())
	return cmd
}

// showLimit is how many messages are shown: there may be copies.
const showLimit = 1000

func (c *command) show(messages []admin.Message) error {
	if c.json {
		views, err := viewsOf(messages)
		if err != nil {
			return err
		}
		return c.printJSON(views)
	}
	for _, m := range messages {
		if err := c.printf("%s\n", describe(m)); err != nil {
			return err
		}
	}
	return nil
}

// missing returns an error with the ids that are not there.
func missing(s failedSource, ids []string, messages []admin.Message) error {
	gone := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(messages, func(m admin.Message) bool { return m.ID == id })
	})
	if len(gone) > 0 {
		return fmt.Errorf("no message in %v has the id %s", s, strings.Join(gone, ", "))
	}
	return nil
}

// describe is a message in full, without control characters.
func describe(m admin.Message) string {
	var out details
	line := out.line
	line("id", m.ID)
	line("queue", m.Queue)
	line("exchange", m.Exchange)
	line("key", m.Key)
	line("kind", string(m.Kind))
	line("error", m.Error)
	line("recorded by", m.RecordedBy)
	line("attempts", strconv.Itoa(m.Attempts))
	line("failed", when(m.FailedAt))
	line("first failed", when(m.FirstFailed))
	line("next attempt", when(m.Due))
	line("host", m.Host)
	line("version", m.Version)
	if m.Replays > 0 {
		line("replays", strconv.Itoa(m.Replays))
	}
	line("headers", headersText(m.Headers))
	line("content type", m.ContentType)
	line("encoding", m.ContentEncoding)
	line("published", when(m.Timestamp))
	line("type", m.Type)
	line("app", m.AppID)
	line("correlation id", m.CorrelationID)
	line("reply to", m.ReplyTo)
	if m.Stack != "" {
		fmt.Fprintf(&out, "\n%s\n", plainLines(m.Stack))
	}
	fmt.Fprintf(&out, "\n%s\n", plainLines(string(m.Body)))
	return out.String()
}
