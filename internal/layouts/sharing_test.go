package layouts_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/layouts"
	"github.com/rehop/rehop/layout"
	"github.com/rehop/rehop/topology"
)

// A layout counts in deaths exactly if the headers with which a failed message waits have an x-death: that is what RabbitMQ 4 ignores. It counts in
// rejections exactly if a failed message is rejected.
func TestCountsInDeaths(t *testing.T) {
	for _, l := range []layout.Layout{layout.Native{}, layout.PubSub{}, layout.DLX{}, layout.Tiers{}, layout.Sneakers{}, layout.Sneakers{Reject: true}, layout.Envelope{}} {
		f := layouts.Failure{Message: layouts.Message{Queue: "orders", Exchange: "order", Key: "order.created", Body: []byte("{}")}, Attempt: 2, At: time.Now()}
		if delays := of(l).Delays(); len(delays) > 0 {
			f.Delay = delays[0]
		}
		_, sends := of(l).Retry(f).Headers["x-death"]
		rejects := of(l).Retry(f).Do == layouts.Reject
		if got := layouts.CountsInRejections(l); got != rejects {
			t.Errorf("%s %+v counts in rejections: got %v, and a retry rejects: %v", layouts.Name(l), l, got, rejects)
		}
		if got := layouts.CountsInDeaths(l); got != sends {
			t.Errorf("%s %+v: got %v, and a retry sends x-death: %v", layouts.Name(l), l, got, sends)
		}
	}
}

// The way to the native layout keeps the fleet's exchange exactly where the native layout would declare it differently, which the broker refuses.
func TestWithoutDeathsKeepsTheExchange(t *testing.T) {
	exchange := func(l layout.Layout) topology.Exchange {
		t.Helper()
		for _, x := range of(l).Exchange("order", "").Exchanges {
			if x.Name == "order" {
				return x
			}
		}
		t.Fatalf("%s declares no exchange", layouts.Name(l))
		return topology.Exchange{}
	}
	for _, l := range []layout.Layout{layout.PubSub{}, layout.Tiers{}, layout.Sneakers{}} {
		want := !reflect.DeepEqual(exchange(l), exchange(layout.Native{}))
		if got := strings.Contains(layouts.WithoutDeaths(l, true), "existing-exchange: true"); got != want {
			t.Errorf("%s: got existing-exchange %v, want %v: %s", layouts.Name(l), got, want, layouts.WithoutDeaths(l, true))
		}
	}
}

// To reject messages is no advice where the broker does not keep the count of those.
func TestAdviceToReject(t *testing.T) {
	const reject = "reject: true"
	for _, l := range []layout.Layout{layout.PubSub{}, layout.Tiers{}, layout.Sneakers{}} {
		_, can := l.(layout.Sneakers)
		if got := strings.Contains(layouts.WithoutDeaths(l, true), reject); got != can {
			t.Errorf("%s, where the broker keeps the count: got %v, want %v", layouts.Name(l), got, can)
		}
		if strings.Contains(layouts.WithoutDeaths(l, false), reject) {
			t.Errorf("%s, where the broker does not keep the count: got the advice to reject", layouts.Name(l))
		}
	}
	if advice := layouts.WithoutRejections(layout.Sneakers{Reject: true}); strings.Contains(advice, reject) || !strings.Contains(advice, "topology migrate") {
		t.Errorf("of a layout that rejects: got %q, want the native layout", advice)
	}
}

func TestNames(t *testing.T) {
	for want, l := range map[string]layout.Layout{"native": layout.Native{}, "pubsub": layout.PubSub{}, "dlx": layout.DLX{}, "tiers": layout.Tiers{}, "sneakers": layout.Sneakers{}, "envelope": layout.Envelope{}} {
		if got := layouts.Name(l); got != want {
			t.Errorf("%T: got %q, want %q", l, got, want)
		}
	}
}
