// Package errorqueues checks what operators do with error queues of other frameworks, on a real RabbitMQ and with real frameworks.
package errorqueues

import (
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
	"github.com/rehop/rehop/internal/conformance/errorqueues"
)

func TestMain(m *testing.M) {
	kit.AtOnce(4)
	os.Exit(kit.MainWithProgram(m))
}

// TestRabbitMQ runs the suite on a real RabbitMQ, whose answers are the measure.
func TestRabbitMQ(t *testing.T) {
	errorqueues.Run(t, func(t *testing.T, run func(*testing.T, errorqueues.Broker)) {
		r := lab.Single(t)
		run(t, errorqueues.Broker{URL: r.URL, Dial: new(net.Dialer).DialContext, Management: r.Management(), HTTP: http.DefaultClient})
	})
}
