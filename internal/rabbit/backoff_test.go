package rabbit

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: time.Second}
	for n, full := range map[int]time.Duration{1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 3: 400 * time.Millisecond, 4: 800 * time.Millisecond,
		5: time.Second, 29: time.Second, 30: time.Second, 64: time.Second, 1000: time.Second, math.MaxInt: time.Second} {
		seen := make(map[time.Duration]bool)
		for range 200 {
			d := b.Delay(n)
			if d < full/2 || d > full {
				t.Fatalf("after %d failures: got %v, want from %v to %v", n, d, full/2, full)
			}
			seen[d] = true
		}
		if len(seen) < 100 {
			t.Errorf("after %d failures: got %d different delays of 200, want jitter", n, len(seen))
		}
	}
	for _, b := range []Backoff{{}, {Min: 1, Max: 1}, {Min: time.Hour, Max: time.Hour}, {Min: 1000 * time.Hour, Max: math.MaxInt64}, {Min: math.MaxInt64, Max: math.MaxInt64}} {
		for n := 1; n < 100; n++ {
			if d := b.Delay(n); d < 0 || d > b.Max {
				t.Errorf("%+v after %d failures: got %v, want from 0 to %v", b, n, d, b.Max)
				break
			}
		}
	}
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Pause(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("got %v after %v, want nil after an hour", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := Pause(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want deadline exceeded after a second", err, time.Since(began))
		}
	})
}

func TestNewID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := make(map[string]bool)
		last := ""
		for range 1000 {
			id := NewID()
			if len(id) != 36 || id[14] != '7' || id[8] != '-' || seen[id] {
				t.Fatalf("got %q, want a new UUID of version 7", id)
			}
			if id <= last {
				t.Fatalf("got %q after %q, want them in the order of time", id, last)
			}
			seen[id], last = true, id
			<-time.After(time.Millisecond)
		}
	})
}
