package errorqueues_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/mgmt"
	"github.com/rehop/rehop/internal/conformance/errorqueues"
	"github.com/rehop/rehop/rehoptest"
)

// management is the address of the embedded broker's management API, with which direct speaks.
const management = "http://guest:guest@localhost"

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

// TestEmbedded runs the suite on the embedded broker, by the rules of releases of RabbitMQ that record dead-lettering in different ways.
func TestEmbedded(t *testing.T) {
	for _, release := range []broker.Compat{broker.RabbitMQ310, broker.RabbitMQ43} {
		t.Run(release.String(), func(t *testing.T) {
			errorqueues.Run(t, func(t *testing.T, run func(*testing.T, errorqueues.Broker)) {
				synctest.Test(t, func(t *testing.T) {
					var server *broker.Server
					config := rehoptest.Open(t, rehoptest.WithServer(func(s *broker.Server) { s.Compat, server = release, s })).Config()
					api, err := mgmt.Handler(server)
					if err != nil {
						t.Fatal(err)
					}
					run(t, errorqueues.Broker{URL: config.URL, Dial: config.Dial, Management: management, HTTP: &http.Client{Transport: direct{api}}})
				})
			})
		})
	}
}
