// Package layouts runs the suite of the layouts on a real RabbitMQ, whose answers are the measure.
package layouts

import (
	"net"
	"testing"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/layouts"
)

func TestMain(m *testing.M) { kit.Main(m, 8) }

func TestRabbitMQ(t *testing.T) {
	layouts.Run(t, lab.Single(t).Version(), func(t *testing.T, run func(*testing.T, layouts.Broker)) {
		run(t, layouts.Broker{URL: lab.Single(t).URL, Dial: new(net.Dialer).DialContext})
	})
}
