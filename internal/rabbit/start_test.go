package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While there is a connection and no channel, messages wait within the window, and those behind it with
// their callers; each gets its outcome when there is a channel, or when its context ends.
func TestStartWithoutChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 100 // of start
		const calls = 3 * window
		open := make(chan func(), 1)
		held := false // read and written by the one connection of the fake
		b := &fakeBroker{method: func(p *fakePeer, channel, class, method uint16, _ []byte) bool {
			if class != 20 || method != 10 || held {
				return false
			}
			held = true
			open <- func() { p.send(channel, 20, 11, []byte{0, 0, 0, 0}) }
			return true
		}}
		link, p, _ := start(t, b)
		var returned, settled atomic.Int64
		for i := range calls {
			go func() {
				p.Start(context.Background(), "", "k", &Publishing{MessageId: fmt.Sprint(i)}, true, func(err error) {
					if err != nil {
						t.Errorf("message %d: got %v, want nil", i, err)
					}
					settled.Add(1)
				})
				returned.Add(1)
			}()
		}
		time.Sleep(10 * time.Second)
		if got := p.started.underway(); got != window {
			t.Errorf("messages that are held: got %d, want %d", got, window)
		}
		if returned.Load() > 0 || settled.Load() > 0 {
			t.Errorf("got %d calls that have returned and %d outcomes, want none", returned.Load(), settled.Load())
		}
		p.Start(within(t, time.Second), "", "k", &Publishing{MessageId: "one more"}, true, func(err error) {
			if !errors.Is(err, ErrBlocked) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("one more within a second: got %v, want ErrBlocked", err)
			}
		})
		(<-open)()
		synctest.Wait()
		if returned.Load() != calls || settled.Load() != calls {
			t.Errorf("with a channel: got %d calls that have returned and %d outcomes, want %d", returned.Load(), settled.Load(), calls)
		}
		stop(link, p)
	})
}

// A connection that is lost over and over does not let messages pile up: those that are to be sent again
// keep their places.
func TestStartOnFlappingConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var odd atomic.Bool
		odd.Store(true)
		b := &fakeBroker{}
		b.publish = func(p *fakePeer, channel uint16, tag uint64, _, _ []byte) {
			if !odd.Load() {
				p.ack(channel, tag, 0)
			} else if tag == 50 {
				_ = p.Close()
			}
		}
		link, p, _ := start(t, b)
		const calls = 1000
		var returned, settled atomic.Int64
		go func() {
			for i := range calls {
				p.Start(context.Background(), "", "k", &Publishing{MessageId: fmt.Sprint(i)}, true, func(err error) {
					if err != nil {
						t.Errorf("message %d: got %v, want nil", i, err)
					}
					settled.Add(1)
				})
				returned.Add(1)
			}
		}()
		for range 60 {
			time.Sleep(time.Second)
			if got := returned.Load() - settled.Load(); got > 100 {
				t.Errorf("messages that are held: got %d, want at most 100", got)
			}
		}
		if b.count() < 10 {
			t.Errorf("got %d connections, want many", b.count())
		}
		odd.Store(false)
		time.Sleep(5 * time.Minute) // what was sent just before that gets no confirm, and is sent again after a minute
		if got := settled.Load(); got != calls {
			t.Errorf("outcomes: got %d, want %d", got, calls)
		}
		stop(link, p)
	})
}
