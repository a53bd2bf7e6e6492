package kit

import (
	"context"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/conformance/await"
)

// Limit is how long a test waits for what must happen. It is far longer than anything takes.
const Limit = 5 * time.Minute

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
	return await.One(t, from, Limit, what)
}
