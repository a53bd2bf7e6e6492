package config

import (
	"net"
	"net/url"
	"os"
)

// IsHere reports whether a broker's URL is an address on which a listener of this machine would listen.
func IsHere(broker, listen string) bool {
	u, err := url.Parse(broker)
	if err != nil {
		return false
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil || port != PortOf(u) {
		return false
	}
	own, wanted := net.ParseIP(host), net.ParseIP(u.Hostname())
	everywhere := host == "" || own.IsUnspecified()
	switch name, _ := os.Hostname(); {
	case u.Hostname() == "" || u.Hostname() == "localhost" || wanted.IsLoopback() || wanted.IsUnspecified(): // connecting to 0.0.0.0 reaches this machine
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

// PortOf is the port of a broker's URL.
func PortOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "amqps":
		return "5671"
	}
	return "5672"
}
