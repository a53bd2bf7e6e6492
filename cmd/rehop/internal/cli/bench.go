package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/rehop/rehop/cmd/rehop/internal/load"
)

type benching struct {
	*command
	load.Options
	mode string
	plot string
}

func (c *command) bench() *cobra.Command {
	b := &benching{command: c}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure throughput and latency of an AMQP broker",
		Long: `Bench publishes with confirms and consumes with acks as fast as the broker allows, and prints rates and latencies: from publishing to the confirm, and
from publishing to the delivery. It works with any AMQP 0-9-1 broker. It uses a queue of its own and deletes it at the end; if it is killed, the broker
deletes the queue after ten minutes. It puts as much load on the broker as it can, which slows down other applications.`,
		Example: `  rehop bench --broker amqp://guest:guest@localhost/
  rehop bench --mode publish --size 10000 --publishers 16 --for 30s --plot bench.svg`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&b.mode, "mode", string(load.Both), "what to measure: publish, consume or both at the same time")
	flags.DurationVar(&b.For, "for", 10*time.Second, "how long to measure; with --mode consume, messages are published for as long before that")
	flags.IntVar(&b.Size, "size", 1000, "bytes in a body")
	flags.IntVar(&b.Publishers, "publishers", 4, "channels that publish")
	flags.IntVar(&b.Window, "window", 100, "unconfirmed messages of each publisher; 1 waits for each confirm")
	flags.IntVar(&b.Consumers, "consumers", 4, "channels that consume")
	flags.IntVar(&b.Prefetch, "prefetch", 100, "unacked messages of each consumer")
	flags.StringVar(&b.QueueType, "queue-type", "quorum", "quorum or classic")
	flags.BoolVar(&b.Transient, "transient", false, "publish messages that do not survive a restart in a classic queue")
	flags.StringVar(&b.plot, "plot", "", "write an SVG image of rates and latencies to this file")
	return cmd
}

func (b *benching) run(ctx context.Context) (err error) {
	at, err := b.findPlaces()
	if err != nil {
		return err
	}
	b.Mode, b.URLs, b.ConnectTimeout = load.Mode(b.mode), at.broker.urls, b.reach.connectTimeout
	if err := b.Validate(); err != nil {
		return usage("%w", err)
	}
	if b.TLS, err = b.reach.tlsConfig(); err != nil {
		return err
	}
	b.TLS = checking(b.TLS, at.broker.name)
	var file *os.File
	if b.plot != "" { // before the measurement, in case the file cannot be written
		if file, err = os.Create(b.plot); err != nil {
			return usage("--plot: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	b.notice("putting load on %s", at.broker.String()) // which may not be the broker that the user has in mind
	result, err := b.measure(ctx)
	if _, away := errors.AsType[*load.UnreachableError](err); away {
		return unreachable(err)
	}
	if result.Published == nil && result.Consumed == nil {
		return fmt.Errorf("bench: %w", err)
	}
	// Results are shown also if it was interrupted.
	if file != nil {
		err = errors.Join(err, result.Plot(file))
	}
	if fault := b.print(result); fault != nil {
		return fault
	}
	switch {
	case ctx.Err() != nil:
		return errors.New("bench: interrupted before its time was up")
	case err != nil:
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// measure shows its progress on a terminal.
func (b *benching) measure(ctx context.Context) (load.Result, error) {
	var most atomic.Int64
	shown := b.progressOf("messages")
	b.Progress = func(published, consumed int64) {
		most.Store(max(published, consumed))
		shown.show(most.Load(), 0)
	}
	defer shown.end()
	return load.Run(ctx, b.Options)
}

func (b *benching) print(r load.Result) error {
	if b.json {
		return b.printJSON(r)
	}
	if err := b.printf("%s, %s queue, %d bytes\n", plain(r.Broker), r.QueueType, r.Size); err != nil {
		return err
	}
	var rows [][]string
	for _, f := range []struct {
		name string
		*load.Flow
	}{{"publish", r.Published}, {"consume", r.Consumed}} {
		if f.Flow == nil {
			continue
		}
		row := []string{f.name, strconv.Itoa(f.Workers), strconv.FormatInt(f.Messages, 10), fmt.Sprintf("%.0f", f.Rate), fmt.Sprintf("%.1f", f.Rate*float64(r.Size)/1e6)}
		if f.Latency == nil {
			row = append(row, "-", "-", "-", "-", "-")
		} else {
			for _, seconds := range []float64{f.Latency.P50, f.Latency.P90, f.Latency.P99, f.Latency.P999, f.Latency.Max} {
				row = append(row, milliseconds(seconds))
			}
		}
		rows = append(rows, row)
	}
	if err := b.printTable([]string{"", "CHANNELS", "MESSAGES", "PER S", "MB/S", "P50", "P90", "P99", "P99.9", "MAX"}, rows); err != nil {
		return err
	}
	if r.Refused > 0 {
		return b.printf("%d messages were refused or returned by the broker\n", r.Refused)
	}
	return nil
}

func milliseconds(seconds float64) string {
	switch ms := seconds * 1000; {
	case ms < 10:
		return fmt.Sprintf("%.2fms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0fms", ms)
	default:
		return fmt.Sprintf("%.1fs", seconds)
	}
}
