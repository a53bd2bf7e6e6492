package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

// plainLength is how long a demo runs that cannot be ended with a key.
const plainLength = 20 * time.Second

// Show runs the demo with a user at the terminal, if in and o.Out are one, and returns the sums. If they do not balance, it returns
// ErrNotBalanced as well.
func Show(ctx context.Context, in io.Reader, o Options) (Sums, error) {
	restore := func() error { return nil }
	if !o.Plain && !o.Quiet {
		watching, stop := context.WithCancel(ctx)
		defer stop()
		o.Keys, restore = tty.Keys(watching, in)
	}
	if o.For == 0 && o.Keys == nil {
		o.For = plainLength
	}
	sums, err := Run(ctx, o)
	if err = errors.Join(err, restore()); err != nil {
		return sums, fmt.Errorf("demo: %w", err)
	}
	if !sums.Balanced() {
		return sums, ErrNotBalanced
	}
	return sums, nil
}

// ErrNotBalanced means that a message was lost or handled twice.
var ErrNotBalanced = errors.New("demo: the sums do not balance: published must be handled + failed, with none lost and none handled twice")

// String returns the sums as a table with a summary below it.
func (s Sums) String() string {
	var text bytes.Buffer
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	removed := slices.ContainsFunc(s.Queues, func(q QueueSums) bool { return q.Removed > 0 })
	head, column := "QUEUE\tPUBLISHED\tHANDLED\tFAILED\t", func(QueueSums) string { return "" }
	balance := "published = handled + failed"
	if removed {
		head, column = head+"REMOVED\t", func(q QueueSums) string { return fmt.Sprintf("%d\t", q.Removed) }
		balance += " + removed"
	}
	fmt.Fprintln(w, head+"LOST\tTWICE")
	for _, q := range s.Queues {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s%d\t%d\n", q.Queue, q.Published, q.Handled, q.Failed, column(q), q.Lost, q.Twice)
	}
	_ = w.Flush() // a buffer takes everything
	if !s.Balanced() {
		balance = "the sums do not balance"
	}
	fmt.Fprintf(&text, "%d messages in %.1f s, %d retries, %d replayed: %s\n", s.Messages, s.Seconds, s.Retries, s.Replayed, balance)
	return text.String()
}

// What a user who has seen the demo can try: in a clone of the repository, and with the command.
const (
	NextInClone = `
Next:
  go install ./cmd/rehop    installs the command rehop
` + next + `  docs/quickstart.md        from there to a replayed message
`
	Next = `
Next:
` + next + `  rehop help                lists all commands
`
	next = `  rehop init                writes a rehop.yaml; rehop up runs it on the embedded broker
`
)
