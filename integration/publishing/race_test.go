package publishing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// The broker returns an unroutable message before it confirms it. 10,000 messages, routable and
// unroutable mixed, from many goroutines: each gets its own outcome.
func TestReturnBeforeConfirm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		id   func(publisher, i int) string
	}{
		{"own ids", func(int, int) string { return "" }},
		{"same ids", func(_, i int) string { return fmt.Sprintf("id%d", i%8) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := lab.Single(t)
			c := open(t, rehop.Config{URL: r.URL, Exchanges: []rehop.Exchange{{Name: "order"}}})
			ch := r.Channel()
			kit.Queue(t, ch, "q", nil, [2]string{"order", "yes.#"})
			const publishers, each = 50, 100 // 5,000 each, 10,000 with both
			var all sync.WaitGroup
			var good atomic.Int64
			for p := range publishers {
				all.Go(func() {
					random := rand.New(rand.NewPCG(1, uint64(p)))
					for i := range each {
						m := rehop.Message{ID: test.id(p, i), Exchange: "order", Key: "yes.x"}
						routable := random.IntN(2) == 0
						if !routable {
							m.Key = "no.x"
						}
						err := c.Publish(kit.Context(t), m)
						switch {
						case routable && err != nil:
							t.Errorf("routable: got %v, want nil", err)
						case !routable && !errors.Is(err, rehop.ErrUnroutable):
							t.Errorf("unroutable: got %v, want %v", err, rehop.ErrUnroutable)
						case routable:
							good.Add(1)
						}
					}
				})
			}
			all.Wait()
			depth(t, r, ch, "q", int(good.Load()))
		})
	}
}
