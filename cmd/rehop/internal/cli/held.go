package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/admin"
)

// heldView is a message that waits, in JSON output.
type heldView struct {
	ID          string     `json:"id"`
	Key         string     `json:"key,omitempty"`
	Blocks      bool       `json:"blocks,omitempty"`
	Attempts    int        `json:"attempts"`
	Due         *time.Time `json:"due,omitempty"`
	FirstFailed *time.Time `json:"first_failed,omitempty"`
	Kind        string     `json:"kind,omitempty"`
	Error       string     `json:"error,omitempty"`
}

// heldList is the messages that wait, in JSON output.
type heldList struct {
	Total    int        `json:"total"`
	Messages []heldView `json:"messages"`
}

func (c *command) held() *cobra.Command {
	return group("held", "List, show and skip messages that wait in order by key",
		`A queue whose messages are handled in order by key (order-by) has a second queue, the held queue, for messages that wait: those that have failed,
and those of the same keys behind them. These commands take the name of the queue, not that of the held queue. Only the process that handles the queue's messages knows what waits,
so it must be running.`, c.heldList(), c.heldShow(), c.heldSkip())
}

func (c *command) heldList() *cobra.Command {
	var (
		limit int
		wait  time.Duration
	)
	cmd := &cobra.Command{
		Use:   "ls queue",
		Short: "List the messages that wait in order by key",
		Long: `Ls lists the messages of a queue that wait, those of each key in their order. A message that BLOCKS its key is in the failed queue: the messages behind it wait
until it is replayed (rehop failed replay) or skipped (rehop held skip).`,
		Args: needs("queue"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || wait <= 0 {
				return usage("--limit %d and --wait %v must be positive", limit, wait)
			}
			a, err := c.openQueues(cmd.Context(), layoutChoice{})
			if err != nil {
				return err
			}
			defer a.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			messages, total, err := a.Held(ctx, args[0])
			if err != nil {
				return c.explainHeld(cmd.Context(), err)
			}
			return c.printHeld(messages[:min(limit, len(messages))], total)
		},
	}
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "list at most this many messages, and at most 5000")
	waitFlag(cmd, &wait)
	return cmd
}

// waitFlag adds the flag of commands that ask the process that handles a queue.
func waitFlag(cmd *cobra.Command, wait *time.Duration) {
	cmd.Flags().DurationVar(wait, "wait", 5*time.Second, "how long to wait for an answer")
}

func (c *command) heldShow() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "show queue id…",
		Short: "Show messages that wait in order by key in full",
		Long: `Show prints messages of a queue that wait, with the last error, headers and body, and leaves them there. rehop held ls lists the ids. A message that BLOCKS its key
is in the failed queue: rehop failed show prints it.`,
		Args: needs("queue", "id…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if wait <= 0 {
				return usage("--wait %v must be positive", wait)
			}
			a, err := c.openQueues(cmd.Context(), layoutChoice{})
			if err != nil {
				return err
			}
			defer a.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), wait)
			defer cancel()
			var messages []admin.Message
			for _, id := range args[1:] {
				m, err := a.HeldMessage(ctx, args[0], id)
				if err != nil {
					return c.explainHeld(cmd.Context(), err)
				}
				messages = append(messages, m)
			}
			return c.show(messages)
		},
	}
	waitFlag(cmd, &wait)
	return cmd
}

func (c *command) printHeld(messages []admin.Held, total int) error {
	if c.json {
		list := heldList{Total: total, Messages: []heldView{}}
		for _, m := range messages {
			view := heldView{ID: m.ID, Key: m.Key, Blocks: m.Blocks, Attempts: m.Attempts, Kind: string(m.Kind), Error: m.Error}
			if !m.Due.IsZero() {
				view.Due = &m.Due
			}
			if !m.FirstFailed.IsZero() {
				view.FirstFailed = &m.FirstFailed
			}
			list.Messages = append(list.Messages, view)
		}
		return c.printJSON(list)
	}
	if total == 0 {
		return c.printf("none\n")
	}
	var rows [][]string
	for _, m := range messages {
		state := "waits"
		switch {
		case m.Blocks:
			state = "BLOCKS"
		case !m.Due.IsZero():
			state = when(m.Due)
		}
		rows = append(rows, []string{dash(m.Key), m.ID, state, strconv.Itoa(m.Attempts), dash(string(m.Kind)), shorten(m.Error, 80)})
	}
	list := table{heading: []string{"KEY", "ID", "NEXT ATTEMPT", "ATTEMPTS", "KIND", "ERROR"}, rows: rows, colour: func(row, column int) string {
		if column == 2 && messages[row].Blocks {
			return red
		}
		return ""
	}}
	if err := c.print(list); err != nil {
		return err
	}
	if total > len(messages) {
		c.notice("there are %d in all; use --limit to list more", total)
	}
	return nil
}

func (c *command) heldSkip() *cobra.Command {
	return &cobra.Command{
		Use:   "skip queue id…",
		Short: "Let the messages of a key continue that wait for a message",
		Long: `Skip lets the messages continue that wait for a message with one of these ids. If the message blocks its key, it stays in the failed queue. If it waits for its
next attempt, it goes to the failed queue. The process that handles the queue's messages does so as soon as it reads the request, or as soon as there is such a process. An id for which nothing waits has no effect.`,
		Args: needs("queue", "id…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := c.openQueues(cmd.Context(), layoutChoice{})
			if err != nil {
				return err
			}
			defer a.Close()
			for i, id := range args[1:] {
				if err := a.Skip(cmd.Context(), args[0], id); err != nil {
					return fmt.Errorf("%w (%s sent before)", c.explainHeld(cmd.Context(), err), counted(i, "request"))
				}
			}
			return c.printf("sent %s\n", counted(len(args)-1, "request"))
		},
	}
}

// explainHeld adds what to do about an error of a command with this context.
func (c *command) explainHeld(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, admin.ErrNoAnswer) && ctx.Err() == nil:
		return fmt.Errorf("%w; start a process that handles them", err)
	case errors.Is(err, admin.ErrNoQueue), errors.Is(err, admin.ErrNotHeld):
		return err
	}
	return c.explain(err)
}
