package mgmt

import (
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/rehop/rehop/broker/internal/node"
)

// endpoint is an address on which clients connect.
type endpoint struct {
	protocol string
	host     string
	port     int
}

func (e endpoint) encrypted() bool { return e.protocol == "amqp/ssl" || e.protocol == "https" }

// endpoints returns the broker's listeners, and the one through which the request came.
func (c *call) endpoints() (all []endpoint) {
	protocol := "amqp"
	if c.server.TLS != nil {
		protocol = "amqp/ssl"
	}
	for _, ln := range c.node.Listeners() {
		host, port := hostPort(ln.Addr())
		all = append(all, endpoint{protocol, host, port})
	}
	if local, ok := c.r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		protocol := "http"
		if c.r.TLS != nil {
			protocol = "https"
		}
		host, port := hostPort(local)
		all = append(all, endpoint{protocol, host, port})
	}
	return all
}

// listeners describes the endpoints, and contexts those of the HTTP API.
func (c *call) listeners() (listeners, contexts list) {
	listeners, contexts = list{}, list{}
	for _, e := range c.endpoints() {
		o := object{"node": c.node.Config.Name, "protocol": e.protocol, "ip_address": e.host, "port": e.port}
		if c.since(node.RabbitMQ43) {
			o["tls"] = e.encrypted()
		}
		listeners = append(listeners, o)
		if e.protocol == "http" || e.protocol == "https" {
			contexts = append(contexts, object{"node": c.node.Config.Name, "description": "RabbitMQ Management", "path": "/", "ip": e.host, "port": strconv.Itoa(e.port)})
		}
	}
	return listeners, contexts
}

// portListener checks whether something listens on a port.
func (c *call) portListener() (any, error) {
	port, err := strconv.Atoi(c.path("port"))
	if err != nil {
		return nil, badRequest([]any{"not_integer", c.path("port")})
	}
	var ports []int
	for _, e := range c.endpoints() {
		ports = append(ports, e.port)
	}
	if slices.Contains(ports, port) {
		return object{"status": "ok", "port": port}, nil
	}
	return unhealthy("No active listener", object{"missing": port, "ports": ports}), nil
}

// protocolListener checks whether a listener has a protocol. From 4.3 on there can be several, separated by commas.
func (c *call) protocolListener() (any, error) {
	var protocols, missing []string
	for _, e := range c.endpoints() {
		protocols = append(protocols, e.protocol)
	}
	wanted := []string{c.path("protocol")}
	several := c.since(node.RabbitMQ43)
	if several {
		wanted = strings.Split(wanted[0], ",")
	}
	for _, w := range wanted {
		if !slices.Contains(protocols, protocolName(w)) {
			missing = append(missing, w)
		}
	}
	switch {
	case len(missing) > 0 && several:
		return unhealthy("No active listener", object{"missing": missing, "protocols": protocols}), nil
	case len(missing) > 0:
		return unhealthy("No active listener", object{"missing": missing[0], "protocols": protocols}), nil
	case several:
		return object{"status": "ok", "protocols": protocols}, nil
	}
	return object{"status": "ok", "protocol": wanted[0]}, nil
}

// protocolName returns the name of a protocol in the list of endpoints.
func protocolName(wanted string) string {
	switch wanted {
	case "amqp091", "amqp0.9.1":
		return "amqp"
	case "amqps", "amqp-ssl":
		return "amqp/ssl"
	}
	return wanted
}
