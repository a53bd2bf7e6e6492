package connections

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/integration/kit"
	"github.com/rehop/rehop/integration/lab"
)

// listen accepts connections, with TLS if config is set, and never sends anything of AMQP.
func listen(t testing.TB, config *tls.Config) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buf := make([]byte, 1024)
				for {
					if _, err := conn.Read(buf); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func certificate(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(lab.Setting(t, "REHOP_RABBITMQ_CERTS"), name)
}

func roots(t testing.TB) *x509.CertPool {
	t.Helper()
	pem, err := os.ReadFile(certificate(t, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		t.Fatal("ca.pem holds no certificate")
	}
	return pool
}

func pair(t testing.TB, name string) tls.Certificate {
	t.Helper()
	p, err := tls.LoadX509KeyPair(certificate(t, name+".pem"), certificate(t, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// secure is the amqps URL of the test's virtual host.
func secure(t testing.TB, r *lab.Rabbit) string {
	return with(t, lab.Setting(t, "REHOP_RABBITMQ_TLS_URL"), func(u *url.URL) { u.Path = "/" + r.Vhost })
}

func TestTLS(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	for name, config := range map[string]rehop.Config{
		"config": {URL: secure(t, r), TLS: &tls.Config{RootCAs: roots(t)}},
		"URL":    {URL: secure(t, r) + "?cacertfile=" + url.QueryEscape(certificate(t, "ca.pem"))},
	} {
		c := kit.Open(t, config)
		if got := c.State(); got != rehop.StateOpen {
			t.Errorf("%s: got state %s, want %s", name, got, rehop.StateOpen)
		}
		if _, err := c.Subscribe(kit.Context(t), rehop.Subscriber{Queue: "q", Handler: kit.Into(make(chan *rehop.Delivery, 10))}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		kit.Publish(t, c, rehop.Message{Key: "q", Body: make([]byte, 1<<20)})
	}
}

// The client certificate names the user; the URL's user is not even looked at.
func TestMutualTLSExternal(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	r.API("PUT", "/api/permissions/"+r.Vhost+"/rehop-external", map[string]string{"configure": ".*", "write": ".*", "read": ".*"}, nil)
	nobody := with(t, secure(t, r), func(u *url.URL) { u.User = url.UserPassword("nobody", "nothing") })
	c := kit.Open(t, rehop.Config{URL: nobody, External: true, TLS: &tls.Config{RootCAs: roots(t), Certificates: []tls.Certificate{pair(t, "client")}}})
	kit.Subscribe(t, c, rehop.Subscriber{Queue: "q", Handler: kit.Into(make(chan *rehop.Delivery, 10))})
	kit.Publish(t, c, rehop.Message{Key: "q"})
	for _, conn := range connections(t, r, 2) {
		if conn.User != "rehop-external" || conn.AuthMechanism != "EXTERNAL" || !conn.SSL {
			t.Errorf("got user %q by %q, TLS %v; want rehop-external by EXTERNAL with TLS", conn.User, conn.AuthMechanism, conn.SSL)
		}
	}
	// Without a certificate the broker refuses.
	_, err := rehop.Open(kit.Context(t), rehop.Config{URL: nobody, External: true, TLS: &tls.Config{RootCAs: roots(t)},
		Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Error("EXTERNAL without a client certificate: got nil, want an error")
	}
}

// A version of TLS below 1.2 is not used, even if the caller's config allows it.
func TestOldTLSRefused(t *testing.T) {
	t.Parallel()
	server := &tls.Config{Certificates: []tls.Certificate{pair(t, "server")}, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	addr := listen(t, server)
	lax := &tls.Config{RootCAs: roots(t), MinVersion: tls.VersionTLS10}
	// The listener does speak 1.1 with whoever wants it.
	conn, err := tls.Dial("tcp", addr, lax)
	if err != nil {
		t.Fatalf("the test's own listener: %v", err)
	}
	if v := conn.ConnectionState().Version; v != tls.VersionTLS11 {
		t.Fatalf("the test's own listener speaks version %x, want 1.1", v)
	}
	_ = conn.Close()
	wantConnectError(t, rehop.Config{URL: "amqps://guest:guest@" + addr + "/", TLS: lax}, "protocol version")
}

func TestWrongCA(t *testing.T) {
	t.Parallel()
	r := lab.Single(t)
	for name, config := range map[string]*tls.Config{"no root": {RootCAs: x509.NewCertPool()}, "system's roots": nil} {
		t.Run(name, func(t *testing.T) {
			wantConnectError(t, rehop.Config{URL: secure(t, r), TLS: config}, "x509: certificate signed by unknown authority")
		})
	}
	t.Run("wrong name", func(t *testing.T) {
		wantConnectError(t, rehop.Config{URL: secure(t, r), TLS: &tls.Config{RootCAs: roots(t), ServerName: "elsewhere"}}, "elsewhere")
	})
}

// wantConnectError checks that a client cannot connect, and reports why wherever one may look.
func wantConnectError(t *testing.T, config rehop.Config, want string) {
	t.Helper()
	e := &events{}
	config.Hooks, config.Logger = e.hooks(), slog.New(slog.DiscardHandler)
	c, err := rehop.Open(kit.Context(t), config)
	if err != nil {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("Open: got %q, want %q in it", err, want)
		}
		return
	}
	defer c.Close(kit.Context(t))
	if got := c.State(); got != rehop.StateRecovering {
		t.Errorf("got state %s, want %s", got, rehop.StateRecovering)
	}
	e.await(t, "told why", func() bool {
		return e.in("publish", rehop.StateRecovering) > 0 && e.in("consume", rehop.StateRecovering) > 0
	})
	e.mu.Lock()
	for _, s := range e.states {
		if s.Err == nil || !strings.Contains(s.Err.Error(), want) {
			t.Errorf("hook of %s: got %v, want %q in it", s.Connection, s.Err, want)
		}
	}
	e.mu.Unlock()
	err = c.Publish(kit.Timeout(t, 100*time.Millisecond), rehop.Message{Key: "q"})
	if !errors.Is(err, rehop.ErrDisconnected) || !strings.Contains(err.Error(), want) {
		t.Errorf("Publish: got %v, want %v with %q in it", err, rehop.ErrDisconnected, want)
	}
}
