package serve

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/console"
)

const (
	// proxyPrefix is in front of the names of users, so that the audit does not take them for users of the file.
	proxyPrefix = "proxy:"
	// longestName is how many bytes the name of a user may have.
	longestName = 255
)

// proxyUsers returns a function that finds the user whom the proxy names in a request. Requests that the proxy has not sent have no user,
// whatever their headers are: only the address of the connection counts, because everybody can write headers such as X-Forwarded-For.
func proxyUsers(p config.Proxy) func(r *http.Request) (console.User, error) {
	return func(r *http.Request) (console.User, error) {
		if !sentBy(p.Addresses, r) {
			return console.User{}, console.ErrNoUser
		}
		// A header that is there twice can have one value of the proxy and one of its client.
		for _, name := range []string{p.UserHeader, p.GroupsHeader} {
			if len(r.Header.Values(name)) > 1 {
				return console.User{}, &console.Refusal{Text: fmt.Sprintf("The proxy has sent the header %s more than once.", name),
					Hint: "Configure the proxy to remove this header from the requests of its clients."}
			}
		}
		name := r.Header.Get(p.UserHeader)
		switch {
		case strings.TrimSpace(name) == "":
			return console.User{}, &console.Refusal{Text: fmt.Sprintf("The request comes from the proxy, and has no user: the header %s is missing.", p.UserHeader),
				Hint: "Log in to the proxy. If you have, configure it to send the header, or set user-header of console.proxy in rehop.yaml."}
		case len(name) > longestName || strings.ContainsFunc(name, func(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) }):
			return console.User{}, &console.Refusal{Text: fmt.Sprintf("The user in the header %s cannot be used: the name is too long, or has characters that cannot be seen.", p.UserHeader)}
		}
		groups := strings.Split(r.Header.Get(p.GroupsHeader), p.GroupsSeparator)
		for i, group := range groups {
			groups[i] = strings.TrimSpace(group)
		}
		role := p.Roles.Of(groups)
		if role == 0 {
			return console.User{}, &console.Refusal{Text: fmt.Sprintf("You are %s, and may not use this console: no group in the header %s has a role.", name, p.GroupsHeader),
				Hint: "Ask the administrator of the console for a role, which is in console.proxy in rehop.yaml."}
		}
		return console.User{Name: proxyPrefix + name, Role: role, From: clientOf(r)}, nil
	}
}

// clientOf is the address of the client of a proxy that is trusted: the last one of X-Forwarded-For, because those before it can be of the client. It is
// empty if the proxy has not sent one.
func clientOf(r *http.Request) string {
	all := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	client, err := netip.ParseAddr(strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:]))
	if err != nil || client.Zone() != "" {
		return ""
	}
	return client.String()
}

// sentBy reports whether the connection of a request is from one of these addresses.
func sentBy(addresses []netip.Prefix, r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	at := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(addresses, func(p netip.Prefix) bool { return p.Contains(at) })
}
