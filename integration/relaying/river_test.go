package relaying

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverLine is River: what is written is worked by its own workers, without a broker.
type riverLine struct {
	*bench
	queue  string
	writer *river.Client[pgx.Tx]
}

// Kind is for River.
func (order) Kind() string { return "order" }

type riverWorker struct {
	river.WorkerDefaults[order]
	got func(n int)
}

func (w *riverWorker) Work(_ context.Context, job *river.Job[order]) error {
	w.got(job.Args.N)
	return nil
}

func openRiver(b *bench, queue string) (carrier, error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(b.pool), nil)
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(context.Background(), rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	writer, err := river.NewClient(riverpgxv5.New(b.pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	return &riverLine{bench: b, queue: strings.ReplaceAll(queue, "-", "_"), writer: writer}, err
}

func (l *riverLine) put(ctx context.Context, numbers []int) error {
	all := make([]river.InsertManyParams, len(numbers))
	for i, n := range numbers {
		all[i] = river.InsertManyParams{Args: newOrder(n), InsertOpts: &river.InsertOpts{Queue: l.queue}}
	}
	return pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		_, err := l.writer.InsertManyFastTx(ctx, tx, all)
		return err
	})
}

func (l *riverLine) carry(ctx context.Context, got func(n int)) (func() error, error) {
	workers := river.NewWorkers()
	if err := river.AddWorkerSafely(workers, &riverWorker{got: got}); err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(l.pool), &river.Config{
		Queues: map[string]river.QueueConfig{l.queue: {MaxWorkers: 200}}, Workers: workers,
		FetchCooldown: 5 * time.Millisecond, // the default of 100 ms would be its latency
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	return func() error {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(client.Stop(stopping))
	}, nil
}
