package audit

import (
	"context"
	"net"
	"net/url"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/proxy"
	"github.com/rehop/rehop/internal/conformance/delivery"
)

// Proxied puts a proxy between the workload and the broker. Connections to a cluster go to its nodes in turn.
func (x *Trial) Proxied() *proxy.Proxy {
	x.T.Helper()
	var nodes []string
	for _, text := range x.Rabbit.URLs {
		u, err := url.Parse(text)
		x.Must(err)
		nodes = append(nodes, u.Host)
	}
	p, err := proxy.New(nodes...)
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
// come. An original that was acked too soon is lost for certain, which other faults leave to luck. It reports whether that many
// failed, and others were handled, before the limit. They are not where consumers have died of a message before: it is to be handled alone, and that
// waits for those that cannot be moved.
func (x *Trial) CutMoves(p *proxy.Proxy, limit time.Duration, moves, others int) bool {
	x.T.Helper()
	p.Freeze(moving)
	// What was acked, rightly or not, has reached the broker when others were handled.
	full := x.more(limit, delivery.Failed, moves) && x.more(limit, delivery.Handled, others)
	p.Cut(consuming)
	p.Cut(moving)
	p.Thaw()
	return full
}

// more waits for n more events of a kind, and reports whether they have come.
func (x *Trial) more(limit time.Duration, kind delivery.Kind, n int) bool {
	ctx, cancel := x.Within(limit)
	defer cancel()
	return x.Books.Await(ctx, kind, x.Books.Count(kind)+n) == nil
}

// CutInHand cuts the connection of consumers that have unacked messages.
func (x *Trial) CutInHand(p *proxy.Proxy) {
	x.T.Helper()
	x.See(x.Books.Len(), delivery.Soon, "a message in a handler's hands", func(e delivery.Event) bool { return e.Kind == delivery.Start })
	p.Cut(consuming)
}
