package demo

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"time"
)

// Options say how the demo runs, and how it is shown.
type Options struct {
	// For is how long orders arrive. Default: until the person at the keyboard quits.
	For time.Duration
	// Out is where it is shown.
	Out io.Writer
	// Plain shows lines as things happen, instead of a picture.
	Plain bool
	// Quiet shows nothing.
	Quiet bool
	// Coloured: the picture may have colours.
	Coloured bool
	// Width is that of the picture. Default: 80.
	Width int
	// Keys are what a person types: r replays, o turns the gateway off and on, q quits. Nil: there is no person, and what has failed is
	// replayed now and then.
	Keys <-chan byte
	// Seed is where the gateway's moods come from. Default: chance.
	Seed uint64
}

// pace is how fast everything goes. A demo of a few seconds has to be faster.
type pace struct {
	steps   []time.Duration
	outage  time.Duration // how long the gateway is down
	every   time.Duration // how often it goes down
	replay  time.Duration // how often what rests is replayed, where nobody does it by hand
	orders  float64       // per second
	patient time.Duration // how long the end may take
}

const (
	usualLength  = 20 * time.Second
	shortestStep = 100 * time.Millisecond // which is what the library takes
)

func paceOf(length time.Duration) pace {
	scale := 1.0
	if length > 0 {
		scale = min(1, length.Seconds()/usualLength.Seconds())
	}
	scaled := func(d time.Duration) time.Duration {
		return max(shortestStep, (time.Duration(float64(d)*scale))/shortestStep*shortestStep)
	}
	p := pace{outage: scaled(5 * time.Second), every: scaled(10 * time.Second), replay: scaled(13 * time.Second), orders: 10 / scale, patient: 30 * time.Second}
	p.orders = min(p.orders, 50)
	for i, step := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
		// Each distinct delay is a step of its own.
		p.steps = append(p.steps, max(scaled(step), time.Duration(i+1)*shortestStep))
	}
	return p
}

// names are the steps that the sped up ones stand for.
var names = []string{"10 s", "100 s", "1 h"}

// Run runs the demo until its time is up, the person quits or ctx ends, and then waits until every message has been handled or rests.
func Run(ctx context.Context, o Options) (Sums, error) {
	p := paceOf(o.For)
	if o.Width == 0 {
		o.Width = 80
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	books, gateway := newBooks(), newGateway(o.Seed)
	shop, err := open(ctx, books, gateway, p.steps)
	if err != nil {
		return Sums{}, err
	}
	var stage stage = silence{}
	switch {
	case o.Quiet:
	case o.Plain:
		stage = &lines{out: o.Out}
	default:
		stage = &screen{out: o.Out, width: o.Width, coloured: o.Coloured, steps: p.steps, byHand: o.Keys != nil}
	}
	stage.open()
	d := &director{shop: shop, pace: p, stage: stage, keys: o.Keys}
	err = d.act(ctx, o.For)
	if err == nil {
		d.finish()
	}
	d.draw("")
	stage.close()
	// What was begun is brought to its end whatever has become of ctx.
	after, cancel := context.WithTimeout(context.Background(), p.patient)
	defer cancel()
	var sums Sums
	if err == nil {
		var rests map[string][]string
		if rests, err = shop.atRest(after); err == nil {
			sums = books.sum(rests)
		}
	}
	return sums, errors.Join(err, shop.close(after))
}
