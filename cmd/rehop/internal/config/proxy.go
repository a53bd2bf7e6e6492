package config

import (
	"net/netip"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Proxy is a proxy whose headers name the user of a request.
type Proxy struct {
	// Addresses are those of the proxy. Headers of other clients are not used.
	Addresses []netip.Prefix
	// UserHeader has the name of the user, and GroupsHeader groups with a separator between them.
	UserHeader, GroupsHeader, GroupsSeparator string
	// Roles are those of the groups.
	Roles Roles
}

// proxy reads the proxy that knows the users.
func (r *reader) proxy(n *yaml.Node) *Proxy {
	p := &Proxy{UserHeader: "X-Forwarded-User", GroupsHeader: "X-Forwarded-Groups", GroupsSeparator: ","}
	known := r.roleKeys(&p.Roles)
	known["addresses"] = r.prefixes(&p.Addresses)
	known["user-header"], known["groups-header"] = r.headerName(&p.UserHeader), r.headerName(&p.GroupsHeader)
	known["groups-separator"] = r.nonEmpty(&p.GroupsSeparator)
	at := r.mapping(n, "proxy", known)
	if _, given := at.keys["addresses"]; !given && n.Kind == yaml.MappingNode {
		r.fault(n, "proxy needs addresses: those of the proxy, because everybody else can send the same headers")
	}
	if strings.EqualFold(p.UserHeader, p.GroupsHeader) {
		r.fault(at.at("groups-header"), "user-header and groups-header must differ")
	}
	r.needRoles(n, at, "proxy")
	return p
}

// headerName reads the name of an HTTP header.
func (r *reader) headerName(to *string) func(*yaml.Node) {
	return value(r, to, "a text", "the name of a header, as in X-Forwarded-User", func(text string) (string, error) {
		if text == "" || strings.ContainsFunc(text, func(c rune) bool {
			return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
		}) {
			return "", errInvalid
		}
		return text, nil
	})
}

// prefixes reads addresses and networks.
func (r *reader) prefixes(to *[]netip.Prefix) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.list(n, func(item *yaml.Node) {
			text, shown, ok := r.scalar(item, "an address")
			if !ok {
				return
			}
			prefix, err := netip.ParsePrefix(text)
			if one, failed := netip.ParseAddr(text); failed == nil && one.Zone() == "" {
				prefix, err = netip.PrefixFrom(one, one.BitLen()), nil
			}
			switch {
			case err != nil || prefix.Addr().Is4In6():
				r.fault(item, "%s must be an IP address or a network, as in 10.0.0.5 or 10.1.0.0/16", shown)
			case prefix != prefix.Masked():
				r.fault(item, "%s has an address within the network; write the address alone, or the network as %s", shown, masked(prefix, text, shown))
			case prefix.Bits() == 0:
				r.fault(item, "%s is every address, so everybody could be any user", shown)
			default:
				*to = append(*to, prefix)
			}
		})
		if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
			r.fault(n, "addresses is empty")
		}
	}
}

// masked is the network of a prefix, unless its text is from the environment.
func masked(prefix netip.Prefix, text, shown string) string {
	if strconv.Quote(text) != shown {
		return "10.1.0.0/16"
	}
	return prefix.Masked().String()
}
