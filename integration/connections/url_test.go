package connections

import (
	"net"
	"net/url"
	"testing"
)

// closedPort is an address at which nobody listens.
func closedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// host is the host and port of a URL.
func host(t testing.TB, raw string) (found string) {
	t.Helper()
	with(t, raw, func(u *url.URL) { found = u.Host })
	return found
}

// with is a URL with another host, user or password.
func with(t testing.TB, raw string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}
