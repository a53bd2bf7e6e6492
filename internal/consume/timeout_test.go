package consume

import (
	"testing"
	"time"
)

// The last message of a full prefetch waits for all runs of those before it, and the sum does not overflow.
func TestConsumerTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		of   Timeout
		want time.Duration
	}{
		"one by one":        {Timeout{Prefetch: 12, Concurrency: 3, Handler: 10 * time.Minute, StuckAfter: 30 * time.Second}, 43 * time.Minute},
		"usual":             {Timeout{Prefetch: 4, Concurrency: 2, Handler: 5 * time.Minute, StuckAfter: 30 * time.Second}, 30 * time.Minute},
		"immediate retries": {Timeout{Prefetch: 4, Concurrency: 1, Handler: 5 * time.Minute, StuckAfter: 30 * time.Second, Immediate: 2}, 63 * time.Minute},
		"batches of one":    {Timeout{Prefetch: 20, Concurrency: 1, Handler: 5 * time.Minute, Batch: Batch{Size: 10, Wait: time.Minute}}, 121 * time.Minute},
		"long":              {Timeout{Prefetch: 65535, Concurrency: 1, Handler: 48 * time.Hour}, maxConsumerTimeout},
		"forever":           {Timeout{Prefetch: 5000, Concurrency: 1, Handler: 1<<63 - 1, Immediate: 5}, maxConsumerTimeout},
	} {
		if got := c.of.Consumer(); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
