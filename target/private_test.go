package target

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rehop/rehop"
)

// Which addresses are on the public internet, also if they are hidden in others.
func TestIsPrivate(t *testing.T) {
	t.Parallel()
	for want, addresses := range map[bool]string{
		true: `127.0.0.1 127.1.2.3 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 169.254.170.2 100.64.0.1 100.127.255.255
			192.0.0.192 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
			::1 :: ::127.0.0.1 fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 fec0::1 ff02::1 2001:db8::1 2001::1 100::1 64:ff9b:1::1 3fff::1 5f00::1
			::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::ffff:100.64.0.1 64:ff9b::10.0.0.1 64:ff9b::a9fe:a9fe 2002:7f00:1::1 2002:a9fe:a9fe::`,
		false: `1.1.1.1 8.8.8.8 100.63.255.255 100.128.0.1 172.15.0.1 172.32.0.1 192.167.255.255 192.0.1.1 169.253.0.1 198.17.0.1 198.20.0.1 223.255.255.255
			2606:4700:4700::1111 2a00:1450:4001::1 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1`,
	} {
		for _, text := range strings.Fields(addresses) {
			if got := isPrivate(netip.MustParseAddr(text)); got != want {
				t.Errorf("%s: got private %t, want %t", text, got, want)
			}
		}
	}
	if err := refusePrivate(t.Context(), "tcp", "nonsense", nil); !errors.Is(err, ErrPrivate) {
		t.Errorf("an address that cannot be read: got %v, want that it is refused", err)
	}
}

// A name that points to this machine is of no use, nor is an address, however it is written.
func TestRefusePrivate(t *testing.T) {
	t.Parallel()
	arrived := atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	named := &HTTP{URL: "http://" + net.JoinHostPort("localhost", port), RefusePrivate: true}
	defer named.Close()
	if err := named.Validate(); err != nil {
		t.Errorf("got %v, want that a name is checked when it is used", err)
	}
	if err := named.Handle(t.Context(), &rehop.Delivery{}); !errors.Is(err, ErrPrivate) || !strings.Contains(err.Error(), "not on the public internet") {
		t.Errorf("got %v, want that the address is refused", err)
	}
	for _, host := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254"} {
		h := &HTTP{URL: "http://" + net.JoinHostPort(host, port), RefusePrivate: true}
		if err := h.Validate(); err == nil || !strings.Contains(err.Error(), "not on the public internet") {
			t.Errorf("%s: got %v, want that the URL is invalid", host, err)
		}
	}
	if n := arrived.Load(); n != 0 {
		t.Errorf("%d requests have arrived, want none", n)
	}
	allowed := &HTTP{URL: server.URL}
	defer allowed.Close()
	if err := allowed.Handle(t.Context(), &rehop.Delivery{}); err != nil || arrived.Load() != 1 {
		t.Errorf("without RefusePrivate: got %v and %d requests, want one", err, arrived.Load())
	}
	if err := (&HTTP{URL: server.URL, RefusePrivate: true, Client: &http.Client{}}).Validate(); err == nil || !strings.Contains(err.Error(), "Client cannot be combined") {
		t.Errorf("with a client: got %v, want that it cannot be combined", err)
	}
}

// The address is checked at every connection, so that of a redirect is, too.
func TestRefusePrivateRedirect(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/inside" {
			w.Header().Set("Connection", "close") // so that the redirect needs a connection of its own
			http.Redirect(w, r, "/inside", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	h := &HTTP{URL: server.URL}
	client := clientFor(&HTTP{URL: server.URL, RefusePrivate: true})
	defer client.CloseIdleConnections()
	// The first connection is let through, as if the name had pointed to a public address then.
	connections := 0
	changing := dialer(true)
	refuse := changing.ControlContext
	changing.ControlContext = func(ctx context.Context, network, address string, c syscall.RawConn) error {
		if connections++; connections == 1 {
			return nil
		}
		return refuse(ctx, network, address, c)
	}
	transport := client.Transport.(*http.Transport)
	if transport.Proxy != nil {
		t.Error("it uses a proxy, which would look up names by itself")
	}
	transport.DialContext = changing.DialContext
	h.Client = client
	if err := h.Handle(t.Context(), &rehop.Delivery{}); !errors.Is(err, ErrPrivate) || connections != 2 {
		t.Errorf("got %v after %d connections, want that the second one is refused", err, connections)
	}
}
