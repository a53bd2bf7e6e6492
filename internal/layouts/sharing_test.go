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

// A layout counts in deaths exactly if the headers with which a failed message waits have an x-death: that is what RabbitMQ 4 ignores.
func TestCountsInDeaths(t *testing.T) {
	for _, l := range []layout.Layout{layout.Native{}, layout.PubSub{}, layout.DLX{}, layout.Tiers{}, layout.Sneakers{}, layout.Sneakers{Reject: true}, layout.Envelope{}} {
		f := layouts.Failure{Message: layouts.Message{Queue: "orders", Exchange: "order", Key: "order.created", Body: []byte("{}")}, Attempt: 2, At: time.Now()}
		if delays := of(l).Delays(); len(delays) > 0 {
			f.Delay = delays[0]
		}
		_, sends := of(l).Retry(f).Headers["x-death"]
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
		if got := strings.Contains(layouts.WithoutDeaths(l), "existing-exchange: true"); got != want {
			t.Errorf("%s: got foreign-exchange %v, want %v: %s", layouts.Name(l), got, want, layouts.WithoutDeaths(l))
		}
	}
}

func TestNames(t *testing.T) {
	for want, l := range map[string]layout.Layout{"native": layout.Native{}, "pubsub": layout.PubSub{}, "dlx": layout.DLX{}, "tiers": layout.Tiers{}, "sneakers": layout.Sneakers{}, "envelope": layout.Envelope{}} {
		if got := layouts.Name(l); got != want {
			t.Errorf("%T: got %q, want %q", l, got, want)
		}
	}
}
