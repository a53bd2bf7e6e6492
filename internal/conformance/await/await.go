// Package await has tests wait for what must happen, and fail with what did not.
package await

import (
	"testing"
	"time"
)

// One waits for an event, which may be that the channel is closed.
func One[T any](t testing.TB, from <-chan T, limit time.Duration, what string) T {
	t.Helper()
	v, _ := Next(t, from, limit, what)
	return v
}

// Next waits for an event, and reports whether there was one before the channel was closed.
func Next[T any](t testing.TB, from <-chan T, limit time.Duration, what string) (T, bool) {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case v, ok := <-from:
		return v, ok
	case <-timer.C:
		t.Fatalf("after %v still not: %s", limit, what)
		panic("unreachable")
	}
}

// True asks until a condition is met, for what gives no event. It asks soon at first, and then every now and then.
func True(t testing.TB, limit, every time.Duration, what string, condition func() bool) {
	t.Helper()
	began := time.Now()
	for pause := min(every, 5*time.Millisecond); !condition(); pause = min(2*pause, every) {
		if time.Since(began) > limit {
			t.Fatalf("after %v still not: %s", limit, what)
		}
		<-time.After(pause)
	}
}
