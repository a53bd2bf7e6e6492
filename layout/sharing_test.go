package layout

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop/internal/topology"
)

// A layout counts in deaths exactly if the headers with which a failed message waits have an x-death: that is what RabbitMQ 4 ignores.
func TestCountsInDeaths(t *testing.T) {
	for _, l := range []Layout{Native{}, PubSub{}, DLX{}, Tiers{}, Sneakers{}, Sneakers{Reject: true}, Envelope{}} {
		f := Failure{Letter: Letter{Queue: "orders", Exchange: "order", Key: "order.created", Body: []byte("{}")}, Attempt: 2, At: time.Now()}
		if delays := l.Delays(); len(delays) > 0 {
			f.Delay = delays[0]
		}
		_, sends := l.Retry(f).Headers["x-death"]
		if got := CountsInDeaths(l); got != sends {
			t.Errorf("%s %+v: got %v, and a retry sends x-death: %v", Name(l), l, got, sends)
		}
	}
}

// The way to the native layout keeps the fleet's exchange exactly where the native layout would declare it differently, which the broker refuses.
func TestWithoutDeathsKeepsTheExchange(t *testing.T) {
	exchange := func(l Layout) topology.Exchange {
		t.Helper()
		for _, x := range l.Exchange("order", "").Exchanges {
			if x.Name == "order" {
				return x
			}
		}
		t.Fatalf("%s declares no exchange", Name(l))
		return topology.Exchange{}
	}
	for _, l := range []Layout{PubSub{}, Tiers{}, Sneakers{}} {
		want := !reflect.DeepEqual(exchange(l), exchange(Native{}))
		if got := strings.Contains(WithoutDeaths(l), "foreign-exchange: true"); got != want {
			t.Errorf("%s: got foreign-exchange %v, want %v: %s", Name(l), got, want, WithoutDeaths(l))
		}
	}
}

func TestNames(t *testing.T) {
	for want, l := range map[string]Layout{"native": Native{}, "pubsub": PubSub{}, "dlx": DLX{}, "tiers": Tiers{}, "sneakers": Sneakers{}, "envelope": Envelope{}} {
		if got := Name(l); got != want {
			t.Errorf("%T: got %q, want %q", l, got, want)
		}
	}
}
