package layouts

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
)

// expected is a test that is expected to fail: its failures are noted, and the first one ends it. Its cleanups are those of the real test.
type expected struct {
	testing.TB
	failed, over atomic.Bool
}

// wantFailure runs a case that must fail. If it passes, the exception that names it has become stale.
func wantFailure(t testing.TB, c Case, b Broker, reason string) {
	t.Helper()
	e, ended := &expected{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		c.Run(&Bench{Broker: b, t: e})
	}()
	<-ended
	e.over.Store(true)
	if !e.failed.Load() {
		t.Errorf("%s passes, but is among the exceptions: %s", c.Name, reason)
	}
}

func (e *expected) Error(args ...any)                 { e.fail(fmt.Sprint(args...)) }
func (e *expected) Errorf(format string, args ...any) { e.fail(fmt.Sprintf(format, args...)) }
func (e *expected) Fatal(args ...any)                 { e.fail(fmt.Sprint(args...)) }
func (e *expected) Fatalf(format string, args ...any) { e.fail(fmt.Sprintf(format, args...)) }
func (e *expected) Fail()                             { e.fail("failed") }
func (e *expected) FailNow()                          { e.fail("failed") }
func (e *expected) Failed() bool                      { return e.failed.Load() || e.TB.Failed() }

// fail ends the goroutine that reports a failure, except in a cleanup: a case would otherwise wait long for what does not come.
func (e *expected) fail(why string) {
	e.TB.Helper()
	e.TB.Log("as expected: " + why)
	e.failed.Store(true)
	if !e.over.Load() {
		runtime.Goexit()
	}
}
