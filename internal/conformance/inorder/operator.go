package inorder

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/rehop/rehop/admin"
)

// operator replays or skips messages that halt their keys.
type operator struct {
	end    context.CancelFunc
	acting sync.WaitGroup
}

// operateEvery is how often an operator lists what waits.
const operateEvery = 300 * time.Millisecond

func (w *Workload) operate(ctx context.Context) *operator {
	w.T.Helper()
	a := w.admin(ctx)
	acting, end := context.WithCancel(ctx)
	o := &operator{end: end}
	o.acting.Go(func() {
		defer a.Close()
		tick := time.NewTicker(operateEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.releaseHalted(acting, a)
			case <-acting.Done():
				return
			}
		}
	})
	return o
}

// stop ends an operator, if there is one.
func (o *operator) stop() {
	if o != nil {
		o.end()
		o.acting.Wait()
	}
}

// admin opens what operators use.
func (w *Workload) admin(ctx context.Context) *admin.Admin {
	w.T.Helper()
	config := w.Config("operate")
	a, err := admin.Open(ctx, admin.Config{URL: config.URL, URLs: config.URLs, Dial: config.Dial})
	if err != nil {
		w.T.Fatal(err)
	}
	return a
}

// answerTime is how long an operator waits for an answer. The process that should give it may be gone.
const answerTime = 5 * time.Second

// releaseHalted does for each halted key what the script decides. What fails, because the broker or the process is away, is done
// when the operator looks next.
func (w *Workload) releaseHalted(ctx context.Context, a *admin.Admin) {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	held, _, err := a.Held(asking, w.Script.Queue)
	cancel()
	if err != nil {
		return
	}
	for _, h := range held {
		if !h.Blocks || ctx.Err() != nil {
			continue
		}
		name, _ := strings.CutPrefix(h.ID, w.Script.Queue+"/")
		m := read([]byte(name))
		// A key can be halted again if its owner dies at the moment of its release.
		if w.Script.draw("operator", m.key, m.number)%2 == 0 || w.History.isOver(m) {
			w.History.Record(Event{Kind: Skipped, Key: m.key, Number: m.number}) // others may begin before Skip returns
			_ = a.Skip(ctx, w.Script.Queue, h.ID)
			continue
		}
		_, _ = a.Replay(ctx, w.Script.Queue, admin.Options{Filter: admin.Filter{IDs: []string{h.ID}}})
	}
}

// awaitHeld waits until nothing waits in the held queues: copies of what is over may still be due.
func (w *Workload) awaitHeld(ctx context.Context) {
	w.T.Helper()
	a := w.admin(ctx)
	defer a.Close()
	var (
		held []admin.Held
		err  error
	)
	tick := time.NewTicker(operateEvery)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < standstill; <-tick.C {
		asking, cancel := context.WithTimeout(ctx, answerTime)
		held, _, err = a.Held(asking, w.Script.Queue)
		cancel()
		if err == nil && len(held) == 0 {
			return
		}
		if ctx.Err() != nil {
			break
		}
		if w.Script.Halt {
			w.releaseHalted(ctx, a)
		}
	}
	if err != nil {
		w.T.Errorf("what waits in the end: %v", err)
		return
	}
	for _, h := range held[:min(len(held), maxTexts)] {
		w.T.Errorf("it waits in the held queue although all is over: %+v", h)
	}
}
