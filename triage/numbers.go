package triage

import (
	"cmp"
	"context"
	"slices"
)

// numbers draws numbers for new rows that no other row has.
type numbers struct {
	*writer
	taken   map[int64]bool  // are in use, as far as is known
	known   map[int64]bool  // by the first number of a window: its numbers in use are in taken
	reached map[int64]int64 // by moment: where the last search for a free number ended
}

// drawNumbers gives new rows their numbers, and sorts them.
func (b *batch) drawNumbers(ctx context.Context) error {
	n := numbers{b.writer, make(map[int64]bool), make(map[int64]bool), make(map[int64]int64)}
	wanted := make([]int64, len(b.added))
	for i, a := range b.added {
		wanted[i] = a.lineage.number(a.ordered)
	}
	err := inChunks(wanted, func(some []int64) error {
		_, err := n.take(ctx, "id IN ("+marks(len(some))+")", anyArgs(some))
		return err
	})
	for i, a := range b.added {
		if err == nil {
			a.row.id, err = n.draw(ctx, wanted[i], a.ordered)
		}
	}
	slices.SortFunc(b.added, func(x, y addition) int { return cmp.Compare(x.row.id, y.row.id) })
	return err
}

// take reads which numbers are in use, and returns how many.
func (n *numbers) take(ctx context.Context, where string, args []any) (int, error) {
	used, err := readAll(ctx, n, n.store.sql.Bind("SELECT id FROM "+n.store.table("message")+" WHERE "+where), args, scanNumber)
	for _, id := range used {
		n.taken[id] = true
	}
	return len(used), err
}

// window is how many numbers are looked up at once when one is taken.
const window = 1 << numberBits

// draw returns the wanted number or the next free one.
func (n *numbers) draw(ctx context.Context, wanted, moment int64) (int64, error) {
	id := wanted
	if n.taken[id] {
		id = max(id, n.reached[moment])
		for isFree := false; !isFree; {
			id++
			start := id &^ (window - 1)
			if !n.known[start] {
				n.known[start] = true
				used, err := n.take(ctx, "id >= ? AND id < ?", []any{start, start + window})
				if err != nil {
					return 0, err
				}
				if used == window {
					last, err := n.endOfRun(ctx, start)
					if err != nil {
						return 0, err
					}
					id = last // many messages have failed at the same moment
					continue
				}
			}
			isFree = !n.taken[id]
		}
		n.reached[moment] = id
	}
	n.taken[id] = true
	return id, nil
}

// endOfRun is the last number of those that follow each other without a gap.
func (n *numbers) endOfRun(ctx context.Context, from int64) (last int64, err error) {
	table := n.store.table("message")
	err = n.QueryRowContext(ctx, n.store.sql.Bind("SELECT a.id FROM "+table+" a WHERE a.id >= ? AND NOT EXISTS (SELECT 1 FROM "+table+" b WHERE b.id = a.id + 1) ORDER BY a.id LIMIT 1"), from).Scan(&last)
	return last, err
}
