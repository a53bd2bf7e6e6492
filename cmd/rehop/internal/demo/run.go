package demo

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

// Options are the settings of a demo.
type Options struct {
	// For is how long orders arrive. Default: until the user quits.
	For time.Duration
	// Out is where it is shown.
	Out io.Writer
	// Plain prints a line for each event, instead of a picture.
	Plain bool
	// Quiet shows nothing.
	Quiet bool
	// Coloured allows colours.
	Coloured bool
	// Size returns the columns and lines of the terminal. Default: 80 and 24.
	Size func() (width, height int)
	// Keys are the keys that the user types: r replays, o turns the gateway off and on, q quits. Nil: failed messages are replayed
	// automatically.
	Keys <-chan byte
	// Console serves a web console for the broker. Nil: there is none. It is not used without Keys: nobody has time to look at it.
	Console func(ctx context.Context, server *broker.Server) (Console, error)
	// Seed is the seed of the gateway's failures. Default: a random one.
	Seed uint64
}

// Console is a web console.
type Console interface {
	URL() string
	// Removed is how many failed messages the user has discarded or sent to another queue.
	Removed(ctx context.Context) (int, error)
	Close() error
}

// pace is the speed of a demo. A demo of a few seconds is faster.
type pace struct {
	steps  []time.Duration
	outage time.Duration // how long the gateway is down
	every  time.Duration // how often it goes down
	replay time.Duration // how often failed messages are replayed automatically
	orders float64       // per second
	end    time.Duration // how long the end may take
}

const (
	usualLength  = 20 * time.Second
	shortestStep = 100 * time.Millisecond // the shortest delay of the library
)

func paceOf(length time.Duration) pace {
	scale := 1.0
	if length > 0 {
		scale = min(1, length.Seconds()/usualLength.Seconds())
	}
	scaled := func(d time.Duration) time.Duration {
		return max(shortestStep, (time.Duration(float64(d)*scale))/shortestStep*shortestStep)
	}
	p := pace{outage: scaled(5 * time.Second), every: scaled(10 * time.Second), replay: scaled(13 * time.Second), orders: 10 / scale, end: 30 * time.Second}
	p.orders = min(p.orders, 50)
	for i, step := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		// Each distinct delay is a step of its own.
		p.steps = append(p.steps, max(scaled(step), time.Duration(i+1)*shortestStep))
	}
	return p
}

// names are the real delays of the steps.
var names = []string{"10 s", "100 s", "1 h"}

// Run runs the demo until its time is up, the user quits or ctx ends, and then waits until every message is handled or in the failed queue.
func Run(ctx context.Context, o Options) (Sums, error) {
	p := paceOf(o.For)
	books, gateway := newBooks(), newGateway(cmp.Or(o.Seed, rand.Uint64()))
	hasConsole := o.Console != nil && o.Keys != nil
	shop, err := open(ctx, books, gateway, p.steps, hasConsole)
	if err != nil {
		return Sums{}, err
	}
	if hasConsole {
		if shop.console, err = o.Console(ctx, shop.server); err != nil {
			return Sums{}, errors.Join(err, shop.close(ctx))
		}
	}
	var stage stage
	switch {
	case o.Quiet:
		stage = &lines{out: io.Discard}
	case o.Plain:
		stage = &lines{out: o.Out}
	default:
		stage = &picture{screen: &tty.Screen{Out: o.Out, Coloured: o.Coloured, Size: o.Size}, steps: p.steps, byHand: o.Keys != nil, console: shop.consoleURL()}
	}
	stage.open()
	d := &director{shop: shop, pace: p, stage: stage, keys: o.Keys}
	err = d.act(ctx, o.For)
	if err == nil {
		d.finish()
	}
	d.draw("")
	stage.close()
	// Also when ctx has ended.
	after, cancel := context.WithTimeout(context.Background(), p.end)
	defer cancel()
	var sums Sums
	if err == nil {
		var failed map[string][]string
		if failed, err = shop.failedEvents(after); err == nil {
			err = shop.countRemoved(after)
			sums = books.sum(failed)
		}
	}
	return sums, errors.Join(err, shop.close(after))
}
