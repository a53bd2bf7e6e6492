package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// ErrPrivate is the error of a request to an address that RefusePrivate refuses.
var ErrPrivate = errors.New("private address refused")

// refusePrivate is called with the address of each connection, after names have been looked up: so a name cannot point to a public address
// when it is checked and to a private one when it is used.
func refusePrivate(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %s cannot be read", ErrPrivate, address)
	}
	if isPrivate(at.Addr()) {
		return fmt.Errorf("%w: %s is not on the public internet", ErrPrivate, at.Addr().Unmap())
	}
	return nil
}

// reserved are the networks that are not on the public internet, apart from those that package netip knows.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network; Linux connects to this machine
	netip.MustParsePrefix("100.64.0.0/10"),   // behind the NAT of a carrier, and some cloud services
	netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments, and some cloud metadata
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("::/96"),           // IPv4-compatible, this machine
	netip.MustParsePrefix("64:ff9b:1::/48"),  // local NAT64
	netip.MustParsePrefix("100::/64"),        // discard
	netip.MustParsePrefix("2001::/23"),       // protocol assignments, with Teredo
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("3fff::/20"),       // documentation
	netip.MustParsePrefix("5f00::/16"),       // segment routing
	netip.MustParsePrefix("fec0::/10"),       // site-local
}

// embedding are networks whose addresses contain an IPv4 address, which a gateway may connect to, and at which byte.
var embedding = []struct {
	net netip.Prefix
	at  int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
}

// isPrivate reports whether an address is not one of the public internet: this machine, private networks, link-local addresses such as
// that of cloud metadata, and what is reserved.
func isPrivate(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() { // neither link-local, multicast nor unspecified
		return true
	}
	for _, network := range reserved {
		if network.Contains(a) {
			return true
		}
	}
	for _, e := range embedding {
		if e.net.Contains(a) {
			bytes := a.As16()
			return isPrivate(netip.AddrFrom4([4]byte(bytes[e.at : e.at+4])))
		}
	}
	return false
}

// dialer opens the connections of the default client.
func dialer(refusesPrivate bool) *net.Dialer {
	d := &net.Dialer{Timeout: dialTimeout}
	if refusesPrivate {
		d.ControlContext = refusePrivate
	}
	return d
}
