package sweeps_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/internal/conformance/sweeps"
	"github.com/rehop/rehop/rehoptest"
)

// readAhead is how many bytes admins read ahead in tests with large bodies: few, because the race detector is slow with bytes.
const readAhead = 1 << 20

// management is the address of the embedded broker's management API, with which managementOf speaks.
const management = "http://guest:guest@localhost"

func managementOf(t *testing.T, server *broker.Server) *http.Client {
	t.Helper()
	api, err := mgmt.Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: direct{api}}
}

// direct asks a handler without a connection.
type direct struct{ handler http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.RemoteAddr = "127.0.0.1:1" // guest may come from this machine alone
	if r.Body == nil {
		r.Body = http.NoBody // as a server has it
	}
	answer := httptest.NewRecorder()
	d.handler.ServeHTTP(answer, r)
	return answer.Result(), nil
}

// TestEmbedded runs the suite on the embedded broker, by the rules of each release of RabbitMQ that counts deliveries in its own way.
func TestEmbedded(t *testing.T) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ40, broker.RabbitMQ43} {
		t.Run(release.String(), func(t *testing.T) {
			sweeps.Run(t, func(t *testing.T, run func(*testing.T, sweeps.Broker)) {
				synctest.Test(t, func(t *testing.T) {
					var server *broker.Server
					config := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.Compat, server = release, s })).Config()
					run(t, sweeps.Broker{URL: config.URL, Dial: config.Dial, ReadAhead: readAhead, Management: management, HTTP: managementOf(t, server)})
				})
			})
		})
	}
}
