package sweeping

import (
	"context"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/rehop/rehop/admin"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/proxy"
)

const (
	// cuts is how often a connection is cut, and cutAmong how many messages are in the failed queue then.
	cuts, cutAmong = 24, 1500
	// chosenOf: one of this many is taken, so that each needs an ack of its own.
	chosenOf = 3
)

// A message that was reported as settled has left the failed queue, even if the connection is lost at that moment.
func TestCutWhenSettled(t *testing.T) {
	t.Parallel()
	for name, sweep := range map[string]func(*admin.Admin, context.Context, admin.Options) error{
		"replay": func(a *admin.Admin, ctx context.Context, o admin.Options) error {
			_, err := a.Replay(ctx, queue, o)
			return err
		},
		"discard": func(a *admin.Admin, ctx context.Context, o admin.Options) error {
			_, err := a.Discard(ctx, queue, o)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			for n := range cuts / 2 {
				s.fill(cutAmong)
				settled := s.cutWhenSettled(2+n%3, sweep) // the first is small
				s.released()
				rest := s.drain(failed)
				still := 0
				for _, id := range rest {
					if settled[id] {
						still++
					}
				}
				if still > 0 {
					t.Errorf("cut %d: %d of %d settled messages are still in the failed queue", n, still, len(settled))
				}
				if len(rest) < cutAmong-cutAmong/chosenOf {
					t.Errorf("cut %d: got %d messages in the failed queue, want at least the %d that were not chosen", n, len(rest), cutAmong-cutAmong/chosenOf)
				}
				s.purge(queue)
			}
		})
	}
}

// cutWhenSettled takes messages, and cuts the connections when the given batch is settled. It returns the ids of those that were settled.
func (s *scene) cutWhenSettled(batch int, sweep func(*admin.Admin, context.Context, admin.Options) error) map[string]bool {
	s.t.Helper()
	through, err := url.Parse(s.rabbit.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := proxy.New(through.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	defer p.Close()
	through.Host = p.Addr()
	ctx, stop := context.WithCancel(kit.Context(s.t))
	defer stop()
	a, err := admin.Open(ctx, admin.Config{URL: through.String()})
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Close()
	var mu sync.Mutex
	settled, batches := make(map[string]bool), 0
	err = sweep(a, ctx, admin.Options{
		Choose: func(_ context.Context, some []admin.Message) ([]bool, error) {
			chosen := make([]bool, len(some))
			for i, m := range some {
				n, err := strconv.Atoi(m.ID)
				if err != nil {
					return nil, err
				}
				chosen[i] = n%chosenOf == 0
			}
			return chosen, nil
		},
		Settled: func(some []admin.Settled) {
			mu.Lock()
			defer mu.Unlock()
			for _, one := range some {
				if one.Err == nil {
					settled[one.Message.ID] = true
				}
			}
			if batches++; batches == batch {
				p.Cut("")
				stop()
			}
		},
	})
	mu.Lock()
	defer mu.Unlock()
	if err == nil || batches < batch {
		s.t.Fatalf("it ended with %v after %d batches, want it cut when %d were settled", err, batches, batch)
	}
	return settled
}
