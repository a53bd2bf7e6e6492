package inorder_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/internal/conformance/inorder"
	"github.com/rehop/rehop/internal/conformance/seeds"
)

// listener is a test whose failures are listened to.
type listener struct {
	testing.TB
	mu    sync.Mutex
	heard []string
}

func (l *listener) Error(args ...any) { l.hear(fmt.Sprint(args...)) }

func (l *listener) Errorf(format string, args ...any) { l.hear(fmt.Sprintf(format, args...)) }

func (l *listener) hear(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, text)
}

// TestLossIsReported: a workload whose messages are not all handled ends when there is no more progress, and names what is missing.
func TestLossIsReported(t *testing.T) {
	seed := seeds.Of(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		w, _ := newWorkload(t, seed)
		heard := &listener{TB: t}
		w.T = heard
		w.Start(ctx)
		w.Run(ctx, 300)
		w.History.Record(inorder.Event{Kind: inorder.Confirmed, Key: "nobody", Number: 1}) // that was not published
		report := w.Finish(ctx)
		if report.Lost != 1 || !strings.Contains(report.Line(), "lost=1") {
			t.Errorf("got %s, want one lost", report.Line())
		}
		all := strings.Join(heard.heard, "\n")
		for _, want := range []string{"waiting for the end of all messages: none has come or is over", "message 1 of nobody was confirmed and is not over"} {
			if !strings.Contains(all, want) {
				t.Errorf("not reported: %q; got\n%s", want, all)
			}
		}
	})
}
