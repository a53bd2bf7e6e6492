package demo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
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

// phonePattern is a number that the gateway knows.
var phonePattern = regexp.MustCompile(`^\+1-555-\d{4}$`)

// phoneOf is the number of the customer of an order, as the customer has typed it.
func phoneOf(order int) string {
	if order%wrongOneIn == 0 {
		return fmt.Sprintf("+1-555-%04d?", order%10_000)
	}
	return fmt.Sprintf("+1-555-%04d", order%10_000)
}

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
func (g *gateway) send(ctx context.Context, order int, phone string) error {
	took, err := g.answer(order, phone)
	timer := time.NewTimer(took)
	defer timer.Stop()
	select {
	case <-timer.C:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gateway) answer(order int, phone string) (time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	took := time.Duration(10+g.random.IntN(40)) * time.Millisecond
	switch {
	case g.down.Load():
		return took, errDown
	case !phonePattern.MatchString(phone) && int64(order) > g.corrected.Load():
		return took, rehop.Permanent(fmt.Errorf("%w: %s", errUnknown, phone))
	case g.random.IntN(busyOneIn) == 0:
		return took, errBusy
	}
	return took, nil
}
