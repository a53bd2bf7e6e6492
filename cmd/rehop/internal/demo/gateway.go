package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rehop/rehop"
)

// What the gateway answers when it does not send.
var (
	errDown    = errors.New("the SMS gateway does not answer")
	errBusy    = errors.New("the SMS gateway says 503")
	errUnknown = errors.New("no such phone number")
)

const (
	busyOneIn  = 8  // of so many calls, one is refused
	wrongOneIn = 17 // of so many customers, one has given a wrong phone number
)

// gateway sends text messages to customers, when it does.
type gateway struct {
	mu        sync.Mutex
	random    *rand.Rand
	down      bool
	corrected int // phone numbers of orders up to this one have been looked through
}

func newGateway(seed uint64) *gateway {
	return &gateway{random: rand.New(rand.NewPCG(seed, 1))}
}

// send takes as long as a gateway takes.
func (g *gateway) send(ctx context.Context, order int) error {
	took, err := g.answer(order)
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gateway) answer(order int) (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	took := time.Duration(10+g.random.IntN(40)) * time.Millisecond
	switch {
	case g.down:
		return took, errDown
	case order%wrongOneIn == 0 && order > g.corrected:
		return took, rehop.Permanent(errUnknown)
	case g.random.IntN(busyOneIn) == 0:
		return took, errBusy
	}
	return took, nil
}

func (g *gateway) setDown(down bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = down
}

func (g *gateway) isDown() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.down
}

// correct has somebody look through the phone numbers of the orders so far, as one does before a replay.
func (g *gateway) correct(upTo int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.corrected = upTo
}
