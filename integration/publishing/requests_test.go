package publishing

import (
	"net"
	"testing"

	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/requests"
)

// TestRequests runs the suite of requests and replies on a real RabbitMQ, whose answers are the measure.
func TestRequests(t *testing.T) {
	requests.Run(t, func(t *testing.T, run func(*testing.T, requests.Broker)) {
		run(t, requests.Broker{URL: lab.Single(t).URL, Dial: new(net.Dialer).DialContext})
	})
}
