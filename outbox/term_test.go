package outbox

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTermEndsByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerm(time.Now().Add(time.Second))
		if term.over() {
			t.Fatal("it is over before its time")
		}
		time.Sleep(time.Second - 1)
		if term.over() {
			t.Error("it is over a moment before its time")
		}
		term.extend(time.Now().Add(time.Second))
		time.Sleep(time.Second)
		if !term.over() {
			t.Error("it is not over after its time")
		}
	})
}

// On a machine that slept the monotonic clock stood still, but the wall clock did not.
func TestTermEndsByTheWallClock(t *testing.T) {
	monotonic := time.Now().Add(time.Hour)
	term := newTerm(monotonic)
	if term.over() {
		t.Fatal("it is over before its time")
	}
	past := time.Now().Add(-time.Second).Round(0) // has no monotonic part
	term.extend(past)
	if !term.over() {
		t.Error("it is not over although the time of day says so")
	}
}

// The context of a term knows that it has ended before any timer does, and ends with it.
func TestTermContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerm(time.Now().Add(time.Second))
		ctx, done := term.within(context.Background(), time.Hour)
		defer done()
		if err := ctx.Err(); err != nil {
			t.Fatalf("got %v, want nil", err)
		}
		time.Sleep(time.Second) // as for a process that is stopped: nobody has called end
		if err := ctx.Err(); !errors.Is(err, errTermEnded) {
			t.Errorf("got %v, want %v", err, errTermEnded)
		}
		term.end()
		<-ctx.Done()
		if !term.over() {
			t.Error("it is not over although it was ended")
		}
	})
}

func TestTermContextLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		term := newTerm(time.Now().Add(time.Hour))
		ctx, done := term.within(context.Background(), time.Second)
		defer done()
		<-ctx.Done()
		if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want deadline exceeded", err)
		}
	})
}
