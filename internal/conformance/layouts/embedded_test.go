package layouts_test

import (
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/layouts"
	"github.com/rehop/rehop/rehoptest"
)

// TestEmbedded runs the suite on the embedded broker, with the waits of the seeds in virtual time, by the rules that the seeds were written
// for; TestNewer has those of later releases.
func TestEmbedded(t *testing.T) {
	layouts.Run(t, broker.RabbitMQ310.Release(), func(t *testing.T, run func(*testing.T, layouts.Broker)) {
		synctest.Test(t, func(t *testing.T) {
			config := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.Compat = broker.RabbitMQ310 })).Config()
			run(t, layouts.Broker{URL: config.URL, Dial: config.Dial, Virtual: true})
		})
	})
}
