package cli

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/cmd/rehop/internal/database"
	"github.com/rehop/rehop/outbox"
)

func (c *command) outboxRelay() *cobra.Command {
	var (
		s     *store
		relay outbox.Relay
	)
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Publish the messages in the outbox until interrupted",
		Long: `Relay publishes the messages in the outbox of a database. Several relays share the work, and the others replace one that dies. It waits while the broker or the
database is unreachable. On ^C or SIGTERM it waits for the outcome of the messages that it is publishing, and ends.

It logs a warning if the server's settings let a crash lose committed transactions. With --require-durable it reports an error instead, and does not start.`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if relay.BatchSize < 0 || relay.Poll < 0 || relay.Lease < 0 || relay.Keep < 0 || relay.Tries < 0 {
				return usage("no flag of relay may be negative")
			}
			return s.use(cmd.Context(), func(db *sql.DB, source database.Source) error { return s.relay(cmd.Context(), db, source, relay) })
		},
	}
	flags := cmd.Flags()
	s = c.newStore(flags)
	flags.StringVar(&relay.Name, "name", "", "name of this relay in the table of leases (default the host's name)")
	flags.IntVar(&relay.BatchSize, "batch", 0, "how many messages are published together (default 200)")
	flags.DurationVar(&relay.Poll, "poll", 0, "longest pause between two reads of the table (default 250ms)")
	flags.DurationVar(&relay.Lease, "lease", 0, "how long after its last sign of life a relay is replaced by another (default 5s)")
	flags.DurationVar(&relay.Keep, "keep", 0, "how long a published message stays in the table (default it is deleted)")
	flags.IntVar(&relay.Tries, "tries", 0, "how often an unroutable message is published before it is set aside (default 5)")
	addRequireDurable(flags, &relay.RequireDurable)
	return cmd
}

func (s *store) relay(ctx context.Context, db *sql.DB, source database.Source, relay outbox.Relay) error {
	if err := s.requireTables(ctx, db, source); err != nil {
		return err
	}
	config, err := s.clientConfig()
	if err != nil {
		return err
	}
	config.Logger = s.logger() // it runs for long, and connections can be lost meanwhile
	client, err := s.connect(ctx, config)
	if err != nil {
		return err
	}
	relay.Client, relay.DB, relay.Dialect, relay.Tables = client, db, source.Dialect, s.tables
	relay.Logger = slog.New(slog.NewTextHandler(s.Err, nil))
	var published atomic.Int64
	relay.Hooks = []outbox.Hooks{{OnBatch: func(b outbox.Batch) { published.Add(int64(b.Published)) }}}
	s.notice("relaying from %s; ^C ends it", source)
	if err = relay.Run(ctx); err != nil {
		err = fmt.Errorf("%s: %w", source, err)
	}
	return errors.Join(err, s.close(client), s.count("published", int(published.Load())))
}
