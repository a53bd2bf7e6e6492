package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/internal/headerjson"
	"github.com/rehop/rehop/outbox"
)

// entry is a message of an outbox, as JSON.
type entry struct {
	Row      int64          `json:"row"`
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
		after int64
		limit int
	)
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List messages in the outbox",
		Long:  `Ls lists messages in the outbox by their rows: those that were set aside, because the broker cannot take them, or those in another state.`,
		Args:  none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 {
				return usage("--limit %d must be positive", limit)
			}
			switch outbox.State(state) {
			case outbox.StateReady, outbox.StateDelayed, outbox.StateSetAside, outbox.StateKept:
			default:
				return usage("--state %q: the states are ready, delayed, set aside and kept", state)
			}
			return s.inspect(cmd.Context(), func(ctx context.Context, i outbox.Inspector) error {
				entries, err := i.List(ctx, outbox.State(state), after, limit)
				if err != nil {
					return err
				}
				return s.printEntries(entries)
			})
		},
	}
	s = c.newStore(cmd.Flags())
	cmd.Flags().StringVar(&state, "state", string(outbox.StateSetAside), "ready, delayed, set aside or kept")
	cmd.Flags().Int64Var(&after, "after", 0, "begin behind this row")
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "how many to list at the most")
	return cmd
}

// inspect opens the outbox for a moment.
func (s *store) inspect(ctx context.Context, look func(context.Context, outbox.Inspector) error) error {
	db, source, err := s.open(ctx)
	if err != nil {
		return err
	}
	if err = tables(ctx, db, source.Dialect); err == nil {
		err = look(ctx, outbox.Inspector{DB: db, Dialect: source.Dialect})
	}
	return errors.Join(err, db.Close())
}

func (s *store) printEntries(entries []outbox.Entry) error {
	if s.json {
		views := []entry{}
		for _, e := range entries {
			m := e.Message
			views = append(views, entry{Row: e.Row, State: string(e.State), ID: m.ID, Exchange: m.Exchange, Key: m.Key, OrderKey: m.OrderKey,
				Headers: headerjson.Plain(m.Headers), Body: m.Body, Created: e.Created, Due: known(e.Due), Attempts: e.Attempts, Error: e.Error})
		}
		return s.printJSON(views)
	}
	if len(entries) == 0 {
		return s.printf("none\n")
	}
	var rows [][]string
	for _, e := range entries {
		rows = append(rows, []string{strconv.FormatInt(e.Row, 10), e.Message.ID, dash(e.Message.Exchange), dash(e.Message.Key), when(e.Created),
			strconv.Itoa(e.Attempts), shorten(e.Error, 80)})
	}
	return s.printTable([]string{"ROW", "ID", "EXCHANGE", "KEY", "CREATED", "ATTEMPTS", "ERROR"}, rows)
}

func (c *command) outboxRetry() *cobra.Command {
	var s *store
	cmd := &cobra.Command{
		Use:   "retry row…",
		Short: "Have messages published that were set aside, or once more that were kept",
		Args:  needs("row…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.mend(cmd.Context(), args, "retried", func(ctx context.Context, i outbox.Inspector, rows []int64) (int, error) {
				return i.Retry(ctx, rows...)
			})
		},
	}
	s = c.newStore(cmd.Flags())
	return cmd
}

func (c *command) outboxDrop() *cobra.Command {
	var (
		s   *store
		yes bool
	)
	cmd := &cobra.Command{
		Use:   "drop row…",
		Short: "Delete messages that were set aside, for good",
		Long:  `Drop deletes messages that were set aside, for good. It asks before it does, or needs --yes.`,
		Args:  needs("row…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return s.mend(cmd.Context(), args, "dropped", func(ctx context.Context, i outbox.Inspector, rows []int64) (int, error) {
				if err := c.agree(ctx, yes, fmt.Sprintf("delete %s from the outbox for good", counted(len(rows), "message"))); err != nil {
					return 0, err
				}
				return i.Drop(ctx, rows...)
			})
		},
	}
	s = c.newStore(cmd.Flags())
	addYes(cmd.Flags(), &yes)
	return cmd
}

// mend does something with rows, and says how many of them there were.
func (s *store) mend(ctx context.Context, args []string, verb string, do func(context.Context, outbox.Inspector, []int64) (int, error)) error {
	var rows []int64
	for _, arg := range args {
		row, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || row < 1 {
			return usage("%q is no row; rehop outbox ls shows them", arg)
		}
		rows = append(rows, row)
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
			return fmt.Errorf("%d of %s not there, or not in a state for that", len(rows)-n, counted(len(rows), "row"))
		}
		return nil
	})
}
