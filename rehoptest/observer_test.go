package rehoptest_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// observer stands in for a *testing.T: in examples, and where a test is to fail without failing the one that looks on.
type observer struct {
	testing.TB
	mu       sync.Mutex
	faults   []string
	cleanups []func()
}

// observe runs a test to its end, cleanups included, and returns what it complained about.
func observe(test func(t testing.TB)) (complaints string) {
	o := &observer{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer o.cleanUp()
		test(o)
	}()
	<-done
	return strings.Join(o.faults, "\n")
}

// cleanUp continues after a cleanup that ends its goroutine.
func (o *observer) cleanUp() {
	if len(o.cleanups) == 0 {
		return
	}
	last := o.cleanups[len(o.cleanups)-1]
	o.cleanups = o.cleanups[:len(o.cleanups)-1]
	defer o.cleanUp()
	last()
}

func (o *observer) Helper()                  {}
func (o *observer) Name() string             { return "observed" }
func (o *observer) Output() io.Writer        { return io.Discard }
func (o *observer) Context() context.Context { return context.Background() }
func (o *observer) Cleanup(f func())         { o.cleanups = append(o.cleanups, f) }

func (o *observer) Errorf(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

func (o *observer) Fatalf(format string, args ...any) {
	o.Errorf(format, args...)
	runtime.Goexit()
}

func (o *observer) Fatal(args ...any) { o.Fatalf("%s", fmt.Sprint(args...)) }
