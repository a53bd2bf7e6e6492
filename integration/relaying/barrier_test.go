package relaying

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"testing"
	"text/tabwriter"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/dialect"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/outbox"
)

// The variables by which this test binary knows that it is to be a relay, and of what.
const (
	relayDatabase = "REHOP_RELAYING_DATABASE"
	relayBroker   = "REHOP_RELAYING_BROKER"
)

func TestMain(m *testing.M) {
	if os.Getenv(relayDatabase) == "" {
		os.Exit(m.Run())
	}
	if err := relayAlone(); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

// relayAlone relays until its input ends.
func relayAlone() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	db, err := sql.Open("pgx", os.Getenv(relayDatabase))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxIdleConns(4)
	client, err := rehop.Open(ctx, rehop.Config{URL: os.Getenv(relayBroker), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	fmt.Println("ready")
	return errors.Join(outbox.Relay{Client: client, DB: db, Dialect: dialect.Postgres, Logger: slog.New(slog.DiscardHandler)}.Run(ctx), client.Close(context.Background()))
}

// withoutBarrier has a relay publish what it has read at once.
var withoutBarrier = kit.Edit{File: "outbox/dispatch.go", Before: "next, err = v.barrier(ctx, shards)", After: "next, err = 0, nil"}

// other is for comparing with another version: its program must do what relayAlone does.
var other = flag.String("other", "", "relay program to compare with, in place of this one without the barrier")

// TestBarrier measures what the barrier costs that a relay writes between reading and publishing: the same relay, as a process, with it
// and built without it.
func TestBarrier(t *testing.T) {
	b := newBench(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kinds := []string{"with", "without"}
	programs := map[string]string{"with": self, "without": *other}
	if *other == "" {
		programs["without"] = kit.Rebuild(t, "relaying", withoutBarrier)
	}
	results := map[string]*result{"with": {}, "without": {}}
	for round := range *rounds {
		for _, kind := range kinds {
			open := func(b *bench, queue string) (carrier, error) {
				c, err := openRehop(b, kind+"-barrier-"+queue)
				if err != nil {
					return nil, err
				}
				return &relayProcess{c.(*rehopLine), programs[kind]}, nil
			}
			if err := b.measure(t.Context(), contender{kind, open}, round, results[kind]); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		slices.Reverse(kinds)
	}
	fmt.Printf("\nA relay on PostgreSQL in a process of its own, with and without the barrier. %d rounds of %d messages, and of %v with %d transactions in a second.\n", *rounds, *messages, *lasting, *rate)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "barrier\tmessages/s\t(min–max)\tcommit to consumer p50 ms\tp99 ms\t")
	for _, kind := range []string{"with", "without"} {
		r := results[kind]
		fmt.Fprintf(w, "%s\t%.0f\t(%.0f–%.0f)\t%.1f\t%.1f\t\n", kind, median(r.rates), slices.Min(r.rates), slices.Max(r.rates), median(r.p50), median(r.p99))
	}
	_ = w.Flush()
	share := ratio(results["with"], results["without"])
	fmt.Printf("with the barrier it has %.2f of the rate without\n", share)
	if *judge && share < 0.85 {
		t.Errorf("rate with the barrier: got %.2f of that without, want at least 0.85", share)
	}
}

// relayProcess is an outbox whose relay is a process.
type relayProcess struct {
	*rehopLine
	program string
}

func (p *relayProcess) carry(ctx context.Context, got func(n int)) (func() error, error) {
	stopConsumer, err := p.consume(p.queue, got)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, p.program)
	command.Env = append(os.Environ(), relayDatabase+"="+p.pool.Config().ConnString(), relayBroker+"="+p.url)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("the relay has not started: %w", err), command.Wait())
	}
	return func() error { return errors.Join(input.Close(), command.Wait(), stopConsumer()) }, nil
}
