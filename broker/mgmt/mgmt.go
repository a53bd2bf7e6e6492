// Package mgmt serves RabbitMQ's HTTP API for the embedded broker, so that rabbitmqadmin, client libraries and
// Prometheus work with it.
package mgmt

import (
	"fmt"
	"net/http"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/broker/internal/access"
	"github.com/rehop/rehop/broker/internal/node"
	"github.com/rehop/rehop/broker/internal/session"
	"github.com/rehop/rehop/internal/hosts"
)

// Handler returns a handler for a server: RabbitMQ's HTTP API at /api, and metrics for Prometheus at /metrics. Administrators
// can also get a backup (broker.Server.Backup) at /api/rehop/backup. It starts the server if it does not run, and returns an
// error if that fails.
//
// Every request needs the name and password of a user (HTTP basic authentication) with one of RabbitMQ's tags:
//
//   - management can see and use what the user's permissions allow.
//   - policymaker can also change policies.
//   - monitoring can also see all connections and the metrics.
//   - administrator can do everything.
//
// The API changes a virtual host through AMQP connections of that user, so that the same permissions apply.
//
// Requests for hosts that are neither IP addresses nor in Hosts of the server are refused, and so are changes that pages
// of other sites request. After several wrong passwords, logins from that address are refused for a while. Each change is
// logged, with the message "audit".
//
// Basic authentication does not encrypt passwords: serve the handler only on this machine, or behind TLS. Set
// ReadHeaderTimeout of the http.Server, so that slow clients cannot keep connections open.
func Handler(s *broker.Server) (http.Handler, error) {
	names, err := hosts.New(s.Hosts...)
	if err != nil {
		return nil, fmt.Errorf("serve the management API: Hosts: %w", err)
	}
	n, err := access.Start(s, nil)
	if err != nil {
		return nil, fmt.Errorf("serve the management API: %w", err)
	}
	return newAPI(s, n, names), nil
}

// api has what all requests share.
type api struct {
	server     *broker.Server
	node       *session.Server
	routes     []route
	rates      sampler
	hosts      *hosts.List
	protection http.CrossOriginProtection // because browsers also send passwords with requests of other sites
}

func newAPI(s *broker.Server, n *session.Server, names *hosts.List) *api {
	return &api{server: s, node: n, routes: routes(n.Config.Compat), hosts: names}
}

// since reports whether the broker follows this release of RabbitMQ or a later one.
func (a *api) since(release node.Compat) bool { return a.node.Config.Compat >= release }
