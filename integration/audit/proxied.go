package audit

import (
	"context"
	"net"
	"net/url"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// Proxied puts a proxy between the workload and the broker.
func (x *Trial) Proxied() *proxy.Proxy {
	x.T.Helper()
	u, err := url.Parse(x.Rabbit.URL)
	x.Must(err)
	p, err := proxy.New(u.Host)
	x.Must(err)
	x.T.Cleanup(func() { _ = p.Close() })
	plain := x.Work.Config
	x.Work.Config = func(role string) rehop.Config {
		config := plain(role)
		config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, p.Addr())
		}
		return config
	}
	return p
}

// The connections of the client that handles messages, by their names.
const (
	consuming = "consume consume"
	moving    = "consume publish"
)

// CutMoves cuts connections while failed messages are on their way to where they wait, and no confirm has
// come. An original that was acked too soon is lost for certain, which other faults leave to luck. Meanwhile so many others
// must be handled.
func (x *Trial) CutMoves(p *proxy.Proxy, moves, others int) {
	x.T.Helper()
	began, failed := x.Books.Len(), 0
	p.Freeze(moving)
	x.See(began, delivery.Soon, "failed messages that cannot be moved", func(e delivery.Event) bool {
		if e.Kind == delivery.Failed {
			failed++
		}
		return failed >= moves
	})
	// What was acked, rightly or not, has reached the broker then.
	ctx, cancel := x.Within(delivery.Soon)
	defer cancel()
	x.Must(x.Books.Await(ctx, delivery.Handled, x.Books.Count(delivery.Handled)+others))
	p.Cut(consuming)
	p.Cut(moving)
	p.Thaw()
}

// CutInHand cuts the connection of consumers that have messages in hand.
func (x *Trial) CutInHand(p *proxy.Proxy) {
	x.T.Helper()
	x.See(x.Books.Len(), delivery.Soon, "a message in a handler's hands", func(e delivery.Event) bool { return e.Kind == delivery.Start })
	p.Cut(consuming)
}
