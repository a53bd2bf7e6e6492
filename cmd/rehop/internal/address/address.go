package address

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
)

// None as an address of a listener means that nothing listens.
const None = "none"

// Reachable is the address at which a client on this machine reaches a listener.
func Reachable(listen string) (string, error) {
	if listen == None {
		return "", errors.New("is none, so nothing listens")
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", errors.New("must be like 127.0.0.1:5672 or :5672")
	}
	number, err := net.LookupPort("tcp", port)
	switch {
	case err != nil:
		return "", fmt.Errorf("has the port %q, which this machine does not know", port)
	case number == 0:
		return "", errors.New("has the port 0, which is another one at each start")
	}
	if isEverywhere(host) {
		host = "localhost"
	}
	return net.JoinHostPort(host, strconv.Itoa(number)), nil
}

// IsEverywhere reports whether a listener listens on all addresses of the machine.
func IsEverywhere(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err == nil && isEverywhere(host)
}

func isEverywhere(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }

// IsLocal reports whether only this machine can reach a listener. An address that cannot be read is local: nothing listens there.
func IsLocal(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	return err != nil || host == "localhost" || net.ParseIP(host).IsLoopback()
}

// WithoutPassword is a URL that can be shown.
func WithoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "a URL that cannot be read"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = ""
	return u.String()
}
