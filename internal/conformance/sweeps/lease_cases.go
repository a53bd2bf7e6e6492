package sweeps

import (
	"errors"
	"sync"
	"time"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
)

func leaseCases() []Case {
	return []Case{
		{"lease/OneAtATime", oneAtATime},
		{"lease/ShortOnesWait", shortOnesWait},
		{"lease/ConnectionLost", connectionLost},
	}
}

// oneAtATime: while one reads a queue, others get an error. Another queue can be read.
func oneAtATime(b *Bench) {
	const n = 40
	b.declare(failed, failedArgs(layout.Quorum), layouts.FailedQueue("other"))
	b.fill(failed, n)
	a := b.admin()
	began, end := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var done sync.WaitGroup
	done.Go(func() {
		_, err := a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{IDs: []string{"none"}}, Progress: func(admin.Progress) {
			once.Do(func() { close(began) })
			<-end
		}})
		if err != nil {
			b.t.Errorf("the one that was first: got %v, want no error", err)
		}
	})
	<-began
	for what, who := range map[string]*admin.Admin{"the same admin": a, "another admin": b.admin()} {
		if _, err := who.Failed(b.context(), queue, 1, admin.Filter{}); !errors.Is(err, admin.ErrBusy) {
			b.t.Errorf("%s: got %v, want ErrBusy", what, err)
		}
		if _, err := who.Failed(b.context(), "other", 1, admin.Filter{}); err != nil {
			b.t.Errorf("%s, another queue: got %v, want no error", what, err)
		}
	}
	close(end)
	done.Wait()
	b.wantIDs("export", b.exported(a, admin.Filter{}), n, nil)
}

// shortOnesWait: several who list at once all see everything. One that cannot begin has waited for a while before it returns an error.
func shortOnesWait(b *Bench) {
	const n, readers = 50, 4
	b.declare(failed, failedArgs(layout.Quorum))
	b.fill(failed, n)
	a := b.admin()
	var done sync.WaitGroup
	for range readers {
		done.Go(func() {
			began := time.Now()
			found, err := a.Failed(b.context(), queue, 2*n, admin.Filter{})
			for errors.Is(err, admin.ErrBusy) && time.Since(began) > 3*time.Second { // a slow machine
				began = time.Now()
				found, err = a.Failed(b.context(), queue, 2*n, admin.Filter{})
			}
			if err != nil || len(found) != n {
				b.t.Errorf("got %d messages and %v, want %d", len(found), err, n)
			}
		})
	}
	done.Wait()
}

// connectionLost: what was held when the connection is lost is in the queue again, and can be read at once. The error reports that it was lost.
func connectionLost(b *Bench) {
	const n = 500
	b.declare(failed, failedArgs(layout.Quorum), queue)
	b.fill(failed, n)
	wire := &cable{dial: b.Dial}
	a := b.admin(func(c *admin.Config) { c.Dial = wire.connect })
	p, err := a.Replay(b.context(), queue, admin.Options{Filter: admin.Filter{Header: map[string]string{"third": "0"}}, Progress: func(admin.Progress) { wire.cut() }})
	if err == nil || p.Seen == n {
		b.t.Fatalf("got %+v and %v, want that it was cut off", p, err)
	}
	found, err := b.admin().Failed(b.context(), queue, 2*n, admin.Filter{})
	b.must(err)
	replayed := b.takeAll(queue)
	seen := make(map[string]int)
	for _, id := range append(idsOf(found), replayed...) {
		seen[id]++
	}
	if len(seen) != n {
		b.t.Errorf("got %d messages in both queues together, want %d", len(seen), n)
	}
	if twice := len(found) + len(replayed) - len(seen); twice > 256 {
		b.t.Errorf("got %d messages in both queues, want at most 256", twice)
	}
}
