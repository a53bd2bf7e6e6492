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

// The last message of a full prefetch waits until the rate has let all before it pass. A batch is one run, and each worker may have begun one
// with a single message.
func TestRateWait(t *testing.T) {
	batch := Batch{Size: 10, Wait: time.Second}
	for name, c := range map[string]struct {
		of             Timeout
		rate, consumer time.Duration
	}{
		"no rate":           {Timeout{Prefetch: 1000, Concurrency: 1}, 0, 0},
		"one by one":        {Timeout{Prefetch: 100, Concurrency: 5, Rate: .5}, 200 * time.Second, 0},
		"batches":           {Timeout{Prefetch: 101, Concurrency: 1, Rate: .1, Batch: batch}, 110 * time.Second, 0},
		"several workers":   {Timeout{Prefetch: 100, Concurrency: 5, Rate: .1, Batch: batch}, 150 * time.Second, 0},
		"immediate retries": {Timeout{Prefetch: 100, Concurrency: 5, Rate: .1, Immediate: 2, Batch: batch}, 450 * time.Second, 3000*time.Second + 20*time.Second + time.Minute},
		"batches of one":    {Timeout{Prefetch: 300, Concurrency: 1, Rate: .1, Batch: batch}, 310 * time.Second, 3000*time.Second + 300*time.Second + time.Minute},
	} {
		if got := c.of.RateWait(); got != c.rate {
			t.Errorf("%s: wait: got %v, want %v", name, got, c.rate)
		}
		if got, want := c.of.Consumer(), max(c.consumer, usualConsumerTimeout); got != want {
			t.Errorf("%s: consumer timeout: got %v, want %v", name, got, want)
		}
	}
}
