package mgmt

import (
	"net"
	"net/http"
	"slices"
	"strconv"
)

// endpoint is where clients come in.
type endpoint struct {
	protocol string
	host     string
	port     int
}

// endpoints returns the broker's listeners, and the one by which the request came.
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

// listeners describes where clients come in, and contexts the part of it that is the API's.
func (c *call) listeners() (listeners, contexts list) {
	listeners, contexts = list{}, list{}
	for _, e := range c.endpoints() {
		listeners = append(listeners, object{"node": c.node.Name(), "protocol": e.protocol, "ip_address": e.host, "port": e.port})
		if e.protocol == "http" || e.protocol == "https" {
			contexts = append(contexts, object{"node": c.node.Name(), "description": "RabbitMQ Management", "path": "/", "ip": e.host, "port": strconv.Itoa(e.port)})
		}
	}
	return listeners, contexts
}

// portListener sees whether something listens on a port.
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
	return ill("No active listener", object{"missing": port, "ports": ports}), nil
}

// protocolListener sees whether a protocol is spoken.
func (c *call) protocolListener() (any, error) {
	wanted := c.path("protocol")
	switch wanted {
	case "amqp091", "amqp0.9.1":
		wanted = "amqp"
	case "amqps", "amqp-ssl":
		wanted = "amqp/ssl"
	}
	var protocols []string
	for _, e := range c.endpoints() {
		protocols = append(protocols, e.protocol)
	}
	if slices.Contains(protocols, wanted) {
		return object{"status": "ok", "protocol": c.path("protocol")}, nil
	}
	return ill("No active listener", object{"missing": c.path("protocol"), "protocols": protocols}), nil
}
