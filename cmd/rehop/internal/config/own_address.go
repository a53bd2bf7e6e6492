package config

import (
	"context"
	"net"
	"net/url"
	"os"
	"time"
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
	own := net.ParseIP(host)
	everywhere := host == "" || own.IsUnspecified()
	if name, err := os.Hostname(); u.Hostname() == host || everywhere && err == nil && u.Hostname() == name {
		return true
	}
	for _, wanted := range addressesOf(u.Hostname()) {
		switch {
		case wanted.IsLoopback() || wanted.IsUnspecified(): // connecting to 0.0.0.0 reaches this machine
			return everywhere || host == "localhost" || own.IsLoopback()
		case wanted.Equal(own) || everywhere && isOwn(wanted):
			return true
		}
	}
	return false
}

// addressesOf are the addresses of a host, none if its name leads nowhere.
func addressesOf(host string) []net.IP {
	switch ip := net.ParseIP(host); {
	case ip != nil:
		return []net.IP{ip}
	case host == "" || host == "localhost":
		return []net.IP{net.IPv6loopback}
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupLimit)
	defer cancel()
	all, err := net.DefaultResolver.LookupIP(ctx, "ip", host)
	if err != nil {
		return nil // who connects there gets the reason
	}
	return all
}

// lookupLimit is how long finding the addresses of a name may take.
const lookupLimit = time.Second

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
