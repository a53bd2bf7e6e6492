package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// signalGap is how long after the first signal another one counts. coreutils timeout and shells send the same signal twice at once: to the
// process, and to its group.
const signalGap = time.Second

// gap separates further signals from repetitions of the first one. It is used by one goroutine.
type gap struct{ first time.Time }

// counts reports whether a signal is a further one, and not the first one or its repetition.
func (g *gap) counts() bool {
	if g.first.IsZero() {
		g.first = time.Now()
		return false
	}
	return time.Since(g.first) > signalGap
}

// untilSignal returns a context that ends with the first signal to end. A further one ends the process, unless something else receives
// it. The caller calls stop at the end.
func untilSignal(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	in, done, ended := make(chan os.Signal, 4), make(chan struct{}), make(chan struct{})
	signal.Notify(in, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		defer close(ended)
		defer signal.Stop(in)
		select {
		case <-in:
			cancel()
		case <-done:
			return
		}
		repeats := time.NewTimer(signalGap)
		defer repeats.Stop()
		select {
		case <-repeats.C:
		case <-done:
		}
	}()
	return ctx, func() {
		close(done)
		<-ended
		cancel()
	}
}

// passOn returns a channel for signals, and a function that ends it. With a gap, only further signals are passed on.
func passOn(g *gap, signals ...os.Signal) (<-chan struct{}, func()) {
	in, out, done, ended := make(chan os.Signal, 4), make(chan struct{}), make(chan struct{}), make(chan struct{})
	signal.Notify(in, signals...)
	go func() {
		defer close(ended)
		pass(g, in, out, done)
	}()
	return out, func() {
		signal.Stop(in)
		close(done)
		<-ended
	}
}

// pass passes on what counts, until done is closed.
func pass(g *gap, in <-chan os.Signal, out chan<- struct{}, done <-chan struct{}) {
	for {
		select {
		case <-in:
		case <-done:
			return
		}
		if g != nil && !g.counts() {
			continue
		}
		select {
		case out <- struct{}{}:
		case <-done:
			return
		}
	}
}
