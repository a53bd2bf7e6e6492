package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Balance is what Move has done, for each queue of the source that had messages.
type Balance struct {
	Queues []BalanceRow `json:"queues"`
}

// BalanceRow is what became of the messages of one queue of the source. Moved and Again together are as many as Arrived and Due.
type BalanceRow struct {
	Queue string `json:"queue"`
	// Moved messages were confirmed by the target, and then removed from the source.
	Moved int `json:"moved"`
	// Again is how many were confirmed by the target, and may still be on the source, because it was lost before it had removed them.
	// If so, they were moved again, or will be: then the target has them twice, with the same message ids.
	Again int `json:"again"`
	// Left is how many messages the queue of the source still has: ready, and unacked by consumers.
	Left int `json:"left"`
	// Arrived is how many messages came to the queue of the same name on the target.
	Arrived int `json:"arrived"`
	// Due is how many messages wait in the delay queues of the target, or have waited there, and DueBy when the last of them is due.
	Due   int       `json:"due"`
	DueBy time.Time `json:"due_by,omitzero"`
}

// Sum is all queues together, without a name.
func (b Balance) Sum() (sum BalanceRow) {
	for _, row := range b.Queues {
		sum.Moved, sum.Again, sum.Left = sum.Moved+row.Moved, sum.Again+row.Again, sum.Left+row.Left
		sum.Arrived, sum.Due = sum.Arrived+row.Arrived, sum.Due+row.Due
		if row.DueBy.After(sum.DueBy) {
			sum.DueBy = row.DueBy
		}
	}
	return sum
}

// Left is how many messages the source still has.
func (b Balance) Left() int { return b.Sum().Left }

// String is a table.
func (b Balance) String() string {
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "QUEUE\tMOVED\tAGAIN\tLEFT\tARRIVED\tDUE")
	total := b.Sum()
	total.Queue = "total"
	for _, row := range append(slices.Clip(b.Queues), total) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\n", row.Queue, row.Moved, row.Again, row.Left, row.Arrived, row.Due)
	}
	_ = w.Flush() // a strings.Builder has no errors
	return s.String()
}

// row is the balance of a queue so far.
func (m *move) row(queue string) *BalanceRow {
	row, ok := m.rows[queue]
	if !ok {
		row = &BalanceRow{Queue: queue}
		m.rows[queue] = row
	}
	return row
}

// balance is the balance at the end. It is not certain what is left if there is an error. After a move that was ended, or that a broker
// has not answered, nobody wants to wait long for it.
func (m *move) balance(ctx context.Context, failed bool) (Balance, error) {
	count := func(ctx context.Context) error {
		_, err := m.countLeft(ctx, nil, make(map[string]*statistics))
		return err
	}
	var err error
	if failed {
		short, cancel := context.WithTimeout(context.WithoutCancel(ctx), askLimit)
		defer cancel()
		err = count(short)
	} else {
		err = m.patiently(ctx, count)
	}
	b := Balance{Queues: []BalanceRow{}}
	for _, row := range m.rows {
		if row.Moved+row.Again+row.Left+row.Arrived+row.Due > 0 {
			b.Queues = append(b.Queues, *row)
		}
	}
	slices.SortFunc(b.Queues, func(x, y BalanceRow) int { return strings.Compare(x.Queue, y.Queue) })
	return b, err
}
