package layouts

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/conformance/await"
)

// Bench is what a case works with.
type Bench struct {
	Broker
	t testing.TB
}

// Wait is a time of the seed's where time costs nothing, and a short one elsewhere.
func (b *Bench) Wait(seed, short time.Duration) time.Duration {
	if b.Virtual {
		return seed
	}
	return short
}

// limit is how long a case waits for what must happen: far longer than anything takes.
func (b *Bench) limit() time.Duration { return b.Wait(4*24*time.Hour, 20*time.Second) }

// soon is the limit for what happens at once.
const soon = 2 * time.Minute

// Context ends after the limit.
func (b *Bench) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), b.limit())
	b.t.Cleanup(cancel)
	return ctx
}

// Must ends the test on an error.
func (b *Bench) Must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("got error %v, want none", err)
	}
}

// Eventually waits for a condition that no event announces. Where the limit is long the looks become rare.
func (b *Bench) Eventually(limit time.Duration, what string, condition func() bool) {
	b.t.Helper()
	await.True(b.t, limit, b.Wait(time.Minute, 50*time.Millisecond), what, condition)
}

// receive waits for an event.
func receive[T any](b *Bench, from <-chan T, limit time.Duration, what string) T {
	b.t.Helper()
	return await.One(b.t, from, limit, what)
}

// equal checks a value.
func equal[T comparable](b *Bench, what string, got, want T) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// equals checks a list.
func equals[T comparable](b *Bench, what string, got, want []T) {
	b.t.Helper()
	if !slices.Equal(got, want) {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// waited checks how long something took. Where time is virtual it must have been exactly that.
func waited(b *Bench, what string, got, want time.Duration) {
	b.t.Helper()
	slack := b.Wait(time.Second, b.limit())
	if early := 5 * time.Millisecond; got < want-early || got > want+slack {
		b.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
