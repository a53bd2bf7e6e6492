package inorder_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop/internal/conformance/seeds"
)

// TestOrderlyEnds: processes that come and go in an orderly way cause no repeats.
func TestOrderlyEnds(t *testing.T) {
	seed := seeds.Of(t)
	synctest.Test(t, func(t *testing.T) { orderlyEnds(t, seed) })
}

func orderlyEnds(t *testing.T, seed uint64) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	w, _ := newWorkload(t, seed)
	w.Start(ctx)
	w.Run(ctx, 300)
	names := []string{"first", "second"}
	for i := range 10 {
		name := fmt.Sprint("process ", i)
		w.Join(ctx, name)
		w.Leave(ctx, names[0])
		names = []string{names[1], name}
		w.Run(ctx, 100)
	}
	report := w.Finish(ctx)
	t.Log(report.Line())
	if report.Repeats > 0 {
		t.Errorf("%d repeats, want none: %v", report.Repeats, report.Examples)
	}
}

// TestRecycle: sessions that are replaced in an orderly way, by one of the same process or of another one, cause at most one repeat
// each.
func TestRecycle(t *testing.T) {
	seed := seeds.Of(t)
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint("Partitions", partitions), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				w, _ := newWorkload(t, seed)
				w.Script.Partitions, w.Script.Sessions = partitions, 300*time.Millisecond
				w.Start(ctx)
				w.Recycle(ctx, 10)
				w.Leave(ctx, "second") // from now on the same process has all sessions
				w.Recycle(ctx, 5)
				report := w.Finish(ctx)
				t.Log(report.Line())
				if report.Overlaps > 0 {
					t.Errorf("%d overlaps, want none", report.Overlaps)
				}
			})
		})
	}
}
