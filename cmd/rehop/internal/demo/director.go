package demo

import (
	"context"
	"errors"
	"time"

	"github.com/rehop/rehop/cmd/rehop/internal/tty"
)

// director controls outages, replays and the end.
type director struct {
	shop  *shop
	pace  pace
	stage stage
	keys  <-chan byte
	held  bool // the user has turned the gateway off or on, and it stays so
}

const (
	frame      = 100 * time.Millisecond
	countEvery = time.Second // how often it is looked what the user has removed in the console
)

// Keys that the user types.
const (
	keyReplay  = 'r'
	keyGateway = 'o'
	keyQuit    = 'q'
)

// act takes orders, for a time or until the user quits.
func (d *director) act(ctx context.Context, length time.Duration) error {
	selling, stop := context.WithCancel(ctx)
	defer stop()
	var fault error
	sold := make(chan struct{})
	go func() {
		defer close(sold)
		fault = d.shop.sell(selling, d.pace.orders)
	}()
	var end <-chan time.Time
	if length > 0 {
		timer := time.NewTimer(length)
		defer timer.Stop()
		end = timer.C
	}
	err := d.direct(selling, end, sold)
	stop()
	<-sold
	return errors.Join(err, fault)
}

func (d *director) direct(ctx context.Context, end <-chan time.Time, sold <-chan struct{}) error {
	frames := time.NewTicker(frame)
	defer frames.Stop()
	began, replayed, counted := time.Now(), time.Duration(0), time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-end:
			return nil
		case <-sold:
			return nil
		case key := <-d.keys:
			quit, err := d.press(ctx, key)
			if quit || err != nil {
				return err
			}
		case <-frames.C:
			at := time.Since(began)
			d.weather(at)
			if d.keys == nil && at-replayed >= d.pace.replay {
				replayed = at
				if err := d.shop.replay(ctx); err != nil && ctx.Err() == nil {
					return err
				}
			}
			if at-counted >= countEvery {
				counted = at
				if err := d.shop.countRemoved(ctx); err != nil && ctx.Err() == nil {
					return err
				}
			}
			d.draw("")
		}
	}
}

func (d *director) press(ctx context.Context, key byte) (quit bool, err error) {
	switch key {
	case keyQuit, tty.Break:
		return true, nil
	case keyReplay:
		return false, d.shop.replay(ctx)
	case keyGateway:
		d.held = true
		d.turn(!d.shop.gateway.down.Load())
	}
	return false, nil
}

// weather takes the gateway down for a part of each period, beginning with a good one.
func (d *director) weather(at time.Duration) {
	if down := at%d.pace.every >= d.pace.every-d.pace.outage; !d.held && down != d.shop.gateway.down.Load() {
		d.turn(down)
	}
}

func (d *director) turn(down bool) {
	d.shop.gateway.down.Store(down)
	if down {
		d.shop.books.log("the SMS gateway goes down")
	} else {
		d.shop.books.log("the SMS gateway is back")
	}
}

// finish waits until every message is handled or in the failed queue. A message that is neither when the time is up is lost, and the sums
// show that.
func (d *director) finish() {
	if d.shop.gateway.down.Load() {
		d.turn(false)
	}
	limit := time.NewTimer(d.pace.end)
	defer limit.Stop()
	frames := time.NewTicker(frame)
	defer frames.Stop()
	for !d.shop.books.settled() {
		d.draw("no more orders; waiting messages are finished …")
		select {
		case <-frames.C:
		case <-limit.C:
			return
		}
	}
}

func (d *director) draw(note string) {
	d.stage.draw(d.shop.books, d.shop.gateway.down.Load(), note)
}
