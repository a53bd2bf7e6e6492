package flow

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/target"
)

// running is a flow at work.
type running struct {
	flow  config.Flow
	sub   *rehop.Subscription
	close func() // when the subscription has ended
}

// begin starts a flow.
func begin(ctx context.Context, g *generation, f config.Flow) (*running, error) {
	handler, end := handlerFor(f, g)
	s := f.Subscriber
	s.Handler = handler
	g.watch.expect(s.Queue)
	sub, err := g.client.Subscribe(ctx, s)
	if err != nil {
		end()
		return nil, err
	}
	return &running{flow: f, sub: sub, close: end}, nil
}

// handlerFor is the target of a flow as a handler, with what the flow wraps around it, and what is to be called at the end.
func handlerFor(f config.Flow, g *generation) (rehop.Handler, func()) {
	handler, end := rehop.Handler(nil), func() {}
	switch t := f.Target; {
	case t.HTTP != nil:
		endpoint := t.HTTP.Handler()
		endpoint.Carry = g.observer.Carry
		handler, end = endpoint, endpoint.Close
	case t.Command != nil:
		program := t.Command.Handler()
		program.Carry = g.observer.Carry
		handler = program
	case t.Forward != nil:
		handler = t.Forward.Handler(g.publisher())
	}
	if f.PauseWhenDown {
		handler = pausing(handler)
	}
	return handler, end
}

// pausing turns the failure to reach a target at all, which no message is to blame for, into a pause of the flow.
func pausing(next rehop.Handler) rehop.Handler {
	return rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		err := next.Handle(ctx, d)
		if err != nil && ctx.Err() == nil && isDown(err) {
			return rehop.Unavailable(err)
		}
		return err
	})
}

// isDown reports whether nobody was there who could have looked at the message: no connection came about, or who answered says
// that the service is not there.
func isDown(err error) bool {
	var network *net.OpError
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var answer *target.StatusError
	switch {
	case errors.As(err, &network) && network.Op == "dial", errors.As(err, &name), errors.As(err, &certificate):
		return true
	case errors.As(err, &answer):
		return answer.Code == http.StatusServiceUnavailable
	}
	return false
}
