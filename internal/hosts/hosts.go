// Package hosts knows the names under which an HTTP server is reached, so that it can refuse requests for other names.
package hosts

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
)

// List is the names of a server. A page of another site can make its own name point to this machine (DNS rebinding), and
// then a browser regards the server as a part of that site. But it still sends the name of the site as the host.
type List struct {
	names    map[string]bool
	suffixes []string // of names, with a dot in front
}

// New returns a list of these names, localhost and the name of this machine. A name can begin with "*." to stand for all
// names below it. IP addresses need not be listed: no page can have one as the name of another machine.
func New(names ...string) (*List, error) {
	l := &List{names: map[string]bool{"localhost": true}}
	if machine, err := os.Hostname(); err == nil {
		l.names[canonical(machine)] = true
	}
	for _, name := range names {
		below, wildcard := strings.CutPrefix(name, "*.")
		if !valid(below) {
			return nil, fmt.Errorf("%q is not the name of a host: write it without a scheme, a port and a path, as in rehop.example or *.rehop.example", name)
		}
		if wildcard {
			l.suffixes = append(l.suffixes, "."+canonical(below))
			continue
		}
		l.names[canonical(below)] = true
	}
	return l, nil
}

// valid reports whether a request can have this name.
func valid(name string) bool {
	return strings.Trim(name, ".") != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// Allows reports whether a request for this host, with or without a port, is for the server. A request without a host
// does not come from a browser, but from old health checks.
func (l *List) Allows(host string) bool {
	if host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	} else if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if _, err := netip.ParseAddr(strings.Replace(host, "%25", "%", 1)); err == nil {
		return true
	}
	name := canonical(host)
	if l.names[name] {
		return true
	}
	for _, suffix := range l.suffixes {
		if strings.HasSuffix(name, suffix) && valid(name) {
			return true
		}
	}
	return false
}

// Refusal is the answer to a request for another host, which has the status 421.
func Refusal(host string) string {
	return fmt.Sprintf("this server is not %q: if it should answer to that name, add it to hosts in rehop.yaml, or to the host names of the broker", host)
}

// Handler refuses requests for other hosts, and requests from pages of other sites that are not GET, HEAD or OPTIONS.
func (l *List) Handler(next http.Handler) http.Handler {
	var protection http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.Allows(r.Host) {
			http.Error(w, Refusal(r.Host), http.StatusMisdirectedRequest)
			return
		}
		if err := protection.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
