package cli

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"syscall"
	"time"
)

// refuseItself returns an error if the broker of the environment is at the address on which this rehop up would listen, and refuses connections.
// The user has probably set the variable for other commands, and expects a broker to be started, for which rehop would wait forever.
//
// It is not started: the address may also be that of a RabbitMQ on this machine that is down for a moment, or is still booting. An embedded broker
// in its place would take its port, and messages that nobody looks for there. An error harms nobody, and a supervisor tries again. Brokers that
// --broker or the file names are waited for, because nobody forgets these.
func refuseItself(ctx context.Context, at brokerPlace, listen string) error {
	if at.from != "$"+envBroker || len(at.urls) != 1 || !isHere(at.urls[0], listen) {
		return nil
	}
	u, err := url.Parse(at.urls[0])
	if err != nil {
		return nil // the client reports it
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(limited, "tcp", net.JoinHostPort(u.Hostname(), portOf(u)))
	if err == nil {
		return conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return unreachable(errors.New("nothing answers at the broker " + at.String() + ", which is the address of rehop up itself. " +
		"The embedded broker is not started, because $" + envBroker + " names this one. To start it, unset the variable: " +
		"env -u " + envBroker + " rehop up. To use another broker on this machine, start that one first"))
}

// isHere reports whether a broker's URL is an address on which a listener of this machine would listen.
func isHere(broker, listen string) bool {
	u, err := url.Parse(broker)
	if err != nil {
		return false
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != portOf(u) {
		return false
	}
	own, wanted := net.ParseIP(host), net.ParseIP(u.Hostname())
	everywhere := host == "" || own.IsUnspecified()
	switch name, _ := os.Hostname(); {
	case u.Hostname() == "" || u.Hostname() == "localhost" || wanted.IsLoopback():
		return everywhere || host == "localhost" || own.IsLoopback()
	case u.Hostname() == host || everywhere && u.Hostname() == name:
		return true
	}
	return everywhere && isOwn(wanted)
}

// isOwn reports whether an address is one of this machine.
func isOwn(ip net.IP) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, one := range all {
		if network, ok := one.(*net.IPNet); ok && network.IP.Equal(ip) {
			return true
		}
	}
	return false
}

// portOf is the port of a broker's URL.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "amqps":
		return "5671"
	}
	return "5672"
}
