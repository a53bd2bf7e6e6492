package inorder

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/rehoptest"
)

// TestOrderlyEnds: processes that come and go in an orderly way cause no repeats.
func TestOrderlyEnds(t *testing.T) { synctest.Test(t, orderlyEnds) }

func orderlyEnds(t *testing.T) {
	b := rehoptest.Open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
	defer cancel()
	w := &Workload{T: t, Queue: "ordered", Config: func(role string) rehop.Config {
		config := b.Config()
		config.Hooks, config.Name = nil, role
		return config
	}}
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
	t.Log(w.Finish(ctx))
	if n, examples := w.Audit.Repeats(); n > 0 {
		t.Errorf("%d repeats, want none: %v", n, examples)
	}
}
