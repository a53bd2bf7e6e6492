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

type running struct {
	flow  config.Flow
	sub   *rehop.Subscription
	close func() // when the subscription has ended
}

func begin(ctx context.Context, g *generation, f config.Flow) (*running, error) {
	handler, end := handlerFor(f, g)
	s := f.Ordered()
	s.Handler = handler
	g.watch.expect(s.Queue)
	sub, err := g.client.Subscribe(ctx, s)
	if err != nil {
		end()
		return nil, err
	}
	return &running{flow: f, sub: sub, close: end}, nil
}

// handlerFor returns the handler of a flow, and a function to call at the end.
func handlerFor(f config.Flow, g *generation) (rehop.Handler, func()) {
	handler, end := rehop.Handler(nil), func() {}
	switch t := f.Target; {
	case t.HTTP != nil:
		endpoint := t.HTTP.Handler()
		endpoint.Carry = g.observer.Carry
		handler, end = endpoint, endpoint.Close
	case t.Command != nil:
		program := *t.Command
		program.Carry = g.observer.Carry
		if g.guard != nil {
			program.Started = g.guard()
		}
		handler = &program
	case t.Forward != nil:
		forward := *t.Forward
		forward.Client = g.publisher()
		handler = &forward
	}
	if f.PauseWhenDown {
		handler = pausing(handler)
	}
	return handler, end
}

// pausing pauses the flow if the target cannot be reached at all, which is not the fault of a message.
func pausing(next rehop.Handler) rehop.Handler {
	return rehop.HandlerFunc(func(ctx context.Context, d *rehop.Delivery) error {
		err := next.Handle(ctx, d)
		if err != nil && ctx.Err() == nil && isDown(err) {
			return rehop.Unavailable(err)
		}
		return err
	})
}

// isDown reports whether the message did not reach the service: there was no connection, or the answer is 503.
func isDown(err error) bool {
	if answer, ok := errors.AsType[*target.StatusError](err); ok {
		return answer.Code == http.StatusServiceUnavailable
	}
	network, ok := errors.AsType[*net.OpError](err)
	_, unknown := errors.AsType[*net.DNSError](err)
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	return ok && network.Op == "dial" || unknown || untrusted
}
