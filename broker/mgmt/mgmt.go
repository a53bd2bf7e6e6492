// Package mgmt serves RabbitMQ's HTTP API for the embedded broker, so that rabbitmqadmin, client libraries and collectors of metrics work with it.
package mgmt

import (
	"fmt"
	"net/http"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
)

// Handler serves the API below /api, and metrics for Prometheus at /metrics.
//
// Every request needs the name and password of a user (HTTP basic authentication) who has one of RabbitMQ's tags: management sees
// and uses what the user's permissions allow, policymaker also changes policies, monitoring sees all connections and the metrics, and administrator
// does everything. What is changed in a virtual host is changed by AMQP as that user, so that permissions hold here as they do there.
//
// Serve it on this machine alone or behind TLS: basic authentication does not encrypt. The http.Server should have a ReadHeaderTimeout.
func Handler(s *broker.Server) (http.Handler, error) {
	n, err := access.Start(s, nil)
	if err != nil {
		return nil, fmt.Errorf("serve the management API: %w", err)
	}
	return newAPI(s, n), nil
}

// api is what all requests share.
type api struct {
	server     *broker.Server
	node       *session.Server
	routes     []route
	rates      sampler
	protection http.CrossOriginProtection // browsers send passwords along with requests of other sites, too
}

func newAPI(s *broker.Server, n *session.Server) *api {
	return &api{server: s, node: n, routes: routes(n.Compat())}
}

// since reports whether the broker follows that release of RabbitMQ or a later one.
func (a *api) since(release node.Compat) bool { return a.node.Compat() >= release }
