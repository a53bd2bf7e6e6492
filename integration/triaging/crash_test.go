//go:build !race

package triaging

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/triage"
)

var kills = flag.Int("kills", 6, "how often a process that writes to the index is killed")

// crashFile is the variable with the file of a process that writes until it is killed.
const crashFile = "REHOP_TRIAGING_FILE"

const crashQueue = "orders.failed"

// crashMessage is a message of the process.
func crashMessage(n int) triage.Message {
	return triage.Message{
		ID: fmt.Sprint(n), Queue: "orders", FailedQueue: crashQueue, Kind: "error", Error: fmt.Sprintf("cause %c", 'a'+n%7), Body: []byte(strings.Repeat("some text ", n%300)),
		FailedAt: time.Date(2026, 1, 2, 0, 0, n, 0, time.UTC),
	}
}

// crashing is what a process with a file does.
func crashing() func() error {
	if path := os.Getenv(crashFile); path != "" {
		return func() error { return crashProcess(path) }
	}
	return nil
}

// crashProcess puts messages, reconciles, changes states and writes to the audit, and prints what is committed, until it is killed.
func crashProcess(path string) error {
	ctx := context.Background()
	store, closeStore, err := openStore(ctx, sqliteFile(path))
	if err != nil {
		return err
	}
	defer closeStore()
	head, err := store.AuditHead(ctx)
	if err != nil {
		return err
	}
	for n := int(head.Number) * 100; ; n += 100 {
		some := make([]triage.Message, 100)
		for i := range some {
			some[i] = crashMessage(n + i)
		}
		if err := store.Put(ctx, some); err != nil {
			return err
		}
		fmt.Println("put", n)
		if _, err := store.Reconcile(ctx, crashQueue, func(yield func([]triage.Message, error) bool) {
			for i := 0; i < len(some) && yield(some[i:i+20], nil); i += 20 {
			}
		}); err != nil {
			return err
		}
		fmt.Println("reconciled", n)
		q, err := triage.ParseQuery(fmt.Sprintf("id:%d", n+7), time.Now())
		if err != nil {
			return err
		}
		found, err := store.Search(ctx, q, triage.Page{})
		if err != nil || len(found.Messages) != 1 {
			return fmt.Errorf("search: %d messages, %w", len(found.Messages), err)
		}
		if _, err := store.SetStates(ctx, triage.Change{Refs: []string{found.Messages[0].Ref}, To: triage.Discarded}); err != nil {
			return err
		}
		record, err := store.Audit(ctx, triage.Entry{Actor: "process", Action: "discard", Subject: found.Messages[0].Ref})
		if err != nil {
			return err
		}
		fmt.Println("audit", record.Number, record.Hash)
	}
}

// A process is killed while it writes to the index. What it had committed is there, counters agree with what they count, the audit is whole,
// and a sweep makes the index equal to a queue.
func TestSQLiteKilled(t *testing.T) {
	t.Parallel()
	ctx := kit.Context(t)
	path := filepath.Join(t.TempDir(), "test.db")
	var kept triage.Head
	committed := -1
	for round := range *kills {
		for _, line := range killedAfter(t, path, 3+5*round) {
			var n int
			switch {
			case strings.HasPrefix(line, "put "):
				if _, err := fmt.Sscanf(line, "put %d", &n); err != nil {
					t.Fatal(err)
				}
				committed = max(committed, n)
			case strings.HasPrefix(line, "audit "):
				if _, err := fmt.Sscanf(line, "audit %d %s", &kept.Number, &kept.Hash); err != nil {
					t.Fatal(err)
				}
			}
		}
		store, closeStore, err := openStore(ctx, sqliteFile(path))
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Check(ctx); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		if _, err := store.VerifyAudit(ctx, kept); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		for _, n := range []int{0, committed, committed + 99} {
			q, err := triage.ParseQuery(fmt.Sprintf("id:%d", n), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if r, err := store.Search(ctx, q, triage.Page{}); err != nil || len(r.Messages) != 1 {
				t.Errorf("round %d: message %d, which was committed: got %d messages, %v, want 1", round, n, len(r.Messages), err)
			}
		}
		queue := []triage.Message{crashMessage(3), crashMessage(3), crashMessage(1_000_000 + round)}
		if _, err := store.Reconcile(ctx, crashQueue, func(yield func([]triage.Message, error) bool) { yield(queue, nil) }); err != nil {
			t.Fatal(err)
		}
		queues, err := store.Queues(ctx)
		if err != nil || len(queues) != 1 || queues[0].Failed != len(queue) {
			t.Errorf("round %d: after a sweep: got %+v, %v, want %d failed messages", round, queues, err, len(queue))
		}
		if err := store.Check(ctx); err != nil {
			t.Errorf("round %d, after a sweep: %v", round, err)
		}
		closeStore()
	}
	t.Logf("killed %d times; %d messages and %d records of the audit were committed", *kills, committed+100, kept.Number)
}

// killedAfter runs the process, kills it when it has printed some lines, and returns what it has printed.
func killedAfter(t *testing.T, path string, lines int) (printed []string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), crashFile+"="+path)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(out)
	for scanner.Scan() {
		if printed = append(printed, scanner.Text()); len(printed) == lines {
			_ = cmd.Process.Kill()
		}
	}
	if err := cmd.Wait(); err == nil || len(printed) < lines {
		t.Fatalf("the process ended after %d lines: %v; want it killed after %d", len(printed), err, lines)
	}
	return printed
}
