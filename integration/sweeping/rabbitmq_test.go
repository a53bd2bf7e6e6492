package sweeping

import (
	"net"
	"net/http"
	"testing"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/sweeps"
)

// TestRabbitMQ runs the suite on a real RabbitMQ, whose answers are the measure.
func TestRabbitMQ(t *testing.T) {
	sweeps.Run(t, func(t *testing.T, run func(*testing.T, sweeps.Broker)) {
		r := lab.Single(t)
		run(t, sweeps.Broker{URL: r.URL, Dial: new(net.Dialer).DialContext, Management: r.Management(), HTTP: http.DefaultClient})
	})
}
