package consume

import (
	"testing"
	"time"
)

// The broker must give messages enough time, and need not give them more: with batches, many are
// handled in the time of one.
func TestConsumerTimeout(t *testing.T) {
	t.Parallel()
	const each = 10*time.Minute + 30*time.Second
	for name, test := range map[string]struct {
		prefetch, concurrency int
		batch                 Batch
		want                  time.Duration
	}{
		"one by one":                 {12, 3, Batch{}, 4*each + time.Minute},
		"RabbitMQ's own":             {2, 1, Batch{}, 30 * time.Minute},
		"batches":                    {400, 1, Batch{100, time.Minute}, 4*(each+time.Minute) + time.Minute},
		"the last batch is not full": {301, 1, Batch{100, time.Minute}, 4*(each+time.Minute) + time.Minute},
		"several batches at once":    {800, 2, Batch{100, time.Minute}, 4*(each+time.Minute) + time.Minute},
	} {
		timeout := Timeout{Prefetch: test.prefetch, Concurrency: test.concurrency, Handler: 10 * time.Minute, StuckAfter: 30 * time.Second, Batch: test.batch}
		if got := timeout.Consumer(); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
