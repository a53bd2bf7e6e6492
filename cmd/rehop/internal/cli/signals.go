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

// notified returns a channel that receives signals from now on.
func notified(signals ...os.Signal) chan os.Signal {
	in := make(chan os.Signal, 4)
	signal.Notify(in, signals...)
	return in
}

// reloads marks the commands for which SIGHUP means to read the file again.
const reloads = "reloads"

// releaseHangups lets SIGHUP end this process, as it does if nobody asks for it. It is held from the beginning, before the command is known,
// because a service that was just started can already be asked to reload.
func releaseHangups(hangups chan os.Signal) {
	signal.Stop(hangups)
	select {
	case <-hangups:
		if own, err := os.FindProcess(os.Getpid()); err == nil {
			_ = own.Signal(syscall.SIGHUP)
		}
	default:
	}
}

// passOn returns a channel for signals that are received from another one, and a function that ends both. With a gap, only further signals are
// passed on.
func passOn(g *gap, in chan os.Signal) (<-chan struct{}, func()) {
	out, done, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
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
