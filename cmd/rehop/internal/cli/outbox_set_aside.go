package cli

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/outbox"
)

// entry is a message of an outbox in JSON output.
type entry struct {
	Row      string         `json:"row"` // as outbox.ParseRowID reads it
	State    string         `json:"state"`
	ID       string         `json:"id"`
	Exchange string         `json:"exchange"`
	Key      string         `json:"key"`
	OrderKey string         `json:"order_key,omitempty"`
	Headers  map[string]any `json:"headers,omitempty"`
	Body     []byte         `json:"body_base64"`
	Created  time.Time      `json:"created"`
	Due      *time.Time     `json:"due,omitempty"`
	Attempts int            `json:"attempts"`
	Error    string         `json:"error,omitempty"`
}

func (c *command) outboxList() *cobra.Command {
	var (
		s     *store
		state string
		after string
		limit int
	)
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List messages in the outbox",
		Long: `Ls lists messages in the outbox in the order of their rows: those that were set aside because they cannot be published, or those in another state.

A row is a number, a hyphen and a random hexadecimal number, as in 12-3fa91c. The number alone does not identify a message: after a failover or a restore the database
may give it to another one.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit %d must be positive", limit)
			}
			switch outbox.State(state) {
			case outbox.StateReady, outbox.StateDelayed, outbox.StateSetAside, outbox.StateKept:
			default:
				return usage("--state %q: the states are ready, delayed, set aside and kept", state)
			}
			from, err := rowAfter(after)
			if err != nil {
				return err
			}
			return s.inspect(cmd.Context(), func(ctx context.Context, i outbox.Inspector) error {
				entries, err := s.entries(ctx, i, outbox.State(state), from, limit)
				if err != nil {
					return err
				}
				return s.printEntries(entries)
			})
		},
	}
	s = c.newStore(cmd.Flags())
	cmd.Flags().StringVar(&state, "state", string(outbox.StateSetAside), "ready, delayed, set aside or kept")
	completeValues(cmd, "state", []string{string(outbox.StateReady), string(outbox.StateDelayed), string(outbox.StateSetAside), string(outbox.StateKept)})
	cmd.Flags().StringVar(&after, "after", "", "list the messages after this row, or after this number (default from the first)")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "list at most this many")
	return cmd
}

// entries lists messages, with their bodies if those are printed. An inspector returns a part of the list at a time if it has large bodies.
func (s *store) entries(ctx context.Context, i outbox.Inspector, state outbox.State, after outbox.RowID, limit int) (all []outbox.Entry, err error) {
	if !s.json {
		return i.Summaries(ctx, state, after, limit)
	}
	for len(all) < limit {
		part, err := i.List(ctx, state, after, limit-len(all))
		if err != nil || len(part) == 0 {
			return all, err
		}
		all, after = append(all, part...), part[len(part)-1].Row
	}
	return all, nil
}

// rowAfter reads the row after which a list begins. Its number is enough: a list changes nothing.
func rowAfter(text string) (outbox.RowID, error) {
	if text == "" {
		return outbox.RowID{}, nil
	}
	if number, err := strconv.ParseInt(text, 10, 64); err == nil && number >= 0 {
		return outbox.RowID{Number: number}, nil
	}
	row, err := outbox.ParseRowID(text)
	if err != nil {
		return row, usage("--after %q is neither a row, as rehop outbox ls prints it, nor a number", text)
	}
	return row, nil
}

func rowsOf(args []string) ([]outbox.RowID, error) {
	rows := make([]outbox.RowID, len(args))
	for i, arg := range args {
		var err error
		if rows[i], err = outbox.ParseRowID(arg); err == nil {
			continue
		}
		if _, err := strconv.ParseInt(arg, 10, 64); err == nil {
			return nil, usage("row %q is only a number, which the database may give to another message after a failover or a restore: "+
				"copy the whole row as rehop outbox ls prints it, as in 12-3fa91c", arg)
		}
		return nil, usage("%q is not a row: copy the row as rehop outbox ls prints it, as in 12-3fa91c", arg)
	}
	return rows, nil
}

func (s *store) inspect(ctx context.Context, use func(context.Context, outbox.Inspector) error) error {
	return s.use(ctx, func(db *sql.DB, source database.Source) error {
		if err := s.requireTables(ctx, db, source); err != nil {
			return err
		}
		return use(ctx, s.inspector(db, source.Dialect))
	})
}

func (s *store) printEntries(entries []outbox.Entry) error {
	if s.json {
		views := []entry{}
		for _, e := range entries {
			m := e.Message
			views = append(views, entry{Row: e.Row.String(), State: string(e.State), ID: m.ID, Exchange: m.Exchange, Key: m.Key, OrderKey: m.OrderKey,
				Headers: headerjson.Plain(m.Headers), Body: m.Body, Created: e.Created, Due: known(e.Due), Attempts: e.Attempts, Error: e.Error})
		}
		return s.printJSON(views)
	}
	if len(entries) == 0 {
		return s.printf("none\n")
	}
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, []string{e.Row.String(), e.Message.ID, dash(e.Message.Exchange), dash(e.Message.Key), when(e.Created),
			strconv.Itoa(e.Attempts), shorten(e.Error, 80)})
	}
	return s.printTable([]string{"ROW", "ID", "EXCHANGE", "KEY", "CREATED", "ATTEMPTS", "ERROR"}, rows)
}

func (c *command) outboxRetry() *cobra.Command {
	var (
		s    *store
		kept bool
	)
	cmd := &cobra.Command{
		Use:   "retry row…",
		Short: "Publish messages that were set aside",
		Long: `Retry makes the relay publish messages that were set aside. Give the rows as rehop outbox ls prints them. With --kept, it publishes messages once more that were
published and kept: their subscribers receive them twice.`,
		Args: needs("row…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.changeRows(cmd.Context(), args, "retried", func(ctx context.Context, i outbox.Inspector, rows []outbox.RowID) (int, error) {
				if kept {
					return i.Republish(ctx, rows...)
				}
				return i.Retry(ctx, rows...)
			})
		},
	}
	s = c.newStore(cmd.Flags())
	cmd.Flags().BoolVar(&kept, "kept", false, "publish messages once more that were published and kept")
	return cmd
}

func (c *command) outboxDrop() *cobra.Command {
	var (
		s   *store
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "discard row…",
		Short: "Delete messages that were set aside",
		Long:  `Discard deletes messages that were set aside. They cannot be recovered. Give the rows as rehop outbox ls prints them. It asks first, or needs --yes.`,
		Args:  needs("row…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.changeRows(cmd.Context(), args, "discarded", func(ctx context.Context, i outbox.Inspector, rows []outbox.RowID) (int, error) {
				if err := c.agree(ctx, yes, fmt.Sprintf("delete %s from the outbox permanently", counted(len(rows), "message"))); err != nil {
					return 0, err
				}
				return i.Discard(ctx, rows...)
			})
		},
	}
	s = c.newStore(cmd.Flags())
	addYes(cmd.Flags(), &yes)
	return cmd
}

// changeRows changes messages by their rows, and prints how many it changed.
func (s *store) changeRows(ctx context.Context, args []string, verb string, do func(context.Context, outbox.Inspector, []outbox.RowID) (int, error)) error {
	rows, err := rowsOf(args)
	if err != nil {
		return err
	}
	return s.inspect(ctx, func(ctx context.Context, i outbox.Inspector) error {
		n, err := do(ctx, i, rows)
		if err != nil {
			return err
		}
		if err := s.count(verb, n); err != nil {
			return err
		}
		if n < len(rows) {
			return fmt.Errorf("%d of %s not changed: no such row, or not in a state that allows it", len(rows)-n, counted(len(rows), "row"))
		}
		return nil
	})
}
