package requests_test

import (
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/conformance/requests"
	"github.com/rehop/rehop/rehoptest"
)

// TestEmbedded runs the suite on the embedded broker, by the rules of releases of RabbitMQ that treat mandatory replies differently.
func TestEmbedded(t *testing.T) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		t.Run(release.String(), func(t *testing.T) {
			requests.Run(t, func(t *testing.T, run func(*testing.T, requests.Broker)) {
				synctest.Test(t, func(t *testing.T) {
					config := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.Compat = release })).Config()
					run(t, requests.Broker{URL: config.URL, Dial: config.Dial})
				})
			})
		})
	}
}
