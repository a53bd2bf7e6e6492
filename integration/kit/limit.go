package kit

import (
	"context"
	"testing"
	"time"
)

// Limit is how long a test waits for what must happen. It is far longer than anything takes.
const Limit = 20 * time.Second

// Context ends after Limit, or with the test.
func Context(t testing.TB) context.Context {
	t.Helper()
	return Timeout(t, Limit)
}

// Timeout is a context that ends after d, or with the test.
func Timeout(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Receive waits for a value.
func Receive[T any](t testing.TB, from <-chan T, what string) T {
	t.Helper()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case v := <-from:
		return v
	case <-timer.C:
		t.Fatalf("after %v still not: %s", Limit, what)
		panic("unreachable")
	}
}
