package inorder_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/internal/conformance/inorder"
	"github.com/rehop/rehop/internal/conformance/seeds"
)

// TestBaseline shows what the audit finds in the same workload without order by key, and without any fault.
func TestBaseline(t *testing.T) {
	seed := seeds.Of(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		w, _ := newWorkload(t, seed)
		w.Script.Unordered = true
		w.Start(ctx)
		w.Run(ctx, 1000)
		report := w.Finish(ctx)
		t.Log(report.Line())
		for _, want := range []inorder.Breach{inorder.OutOfOrder, inorder.TwoAtOnce} {
			if report.Breaches[want] == 0 {
				t.Errorf("not found without order by key: %s", want)
			}
		}
		if report.Lost > 0 {
			t.Errorf("%d lost, want none:\n%s", report.Lost, report.Faulty())
		}
	})
}
