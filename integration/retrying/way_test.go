package retrying

import (
	"errors"
	"testing"
	"time"

	"github.com/rehop/rehop"
)

// eachWay runs a test for both ways in which a message can wait, in parallel: in the queue of a step,
// and after RetryAfter with a delay that is no step, in the cascade. Answer is the handler's.
func eachWay(t *testing.T, after time.Duration, test func(t *testing.T, way string, answer error)) {
	t.Helper()
	for way, answer := range map[string]error{
		"step":    errors.New("again"),
		"cascade": rehop.RetryAfter(after, errors.New("again")),
	} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			test(t, way, answer)
		})
	}
}

// untilShown runs a test whose messages must wait for longer than the machine takes to do something meanwhile. It waits for longer and
// longer, until the test shows something.
func untilShown(t *testing.T, shortest time.Duration, test func(delay time.Duration) (shown bool)) {
	t.Helper()
	const tries = 4
	delay := shortest
	for range tries {
		if test(delay) {
			return
		}
		delay *= 4
	}
	t.Fatalf("the machine was too slow to show anything with delays of up to %v", delay/4)
}
