package demo

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rehop/rehop"
)

// The errors of the gateway.
var (
	errDown    = errors.New("the SMS gateway does not answer")
	errBusy    = errors.New("the SMS gateway answers 503")
	errUnknown = errors.New("no such phone number")
)

const (
	busyOneIn  = 8  // one in 8 calls is refused
	wrongOneIn = 17 // one in 17 customers has a wrong phone number
)

type gateway struct {
	down      atomic.Bool
	corrected atomic.Int64 // phone numbers of orders up to this one have been corrected

	mu     sync.Mutex
	random *rand.Rand
}

func newGateway(seed uint64) *gateway {
	return &gateway{random: rand.New(rand.NewPCG(seed, 1))}
}

// send takes as long as a real gateway.
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
	case g.down.Load():
		return took, errDown
	case order%wrongOneIn == 0 && int64(order) > g.corrected.Load():
		return took, rehop.Permanent(errUnknown)
	case g.random.IntN(busyOneIn) == 0:
		return took, errBusy
	}
	return took, nil
}
