package broker_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/rehop/rehop/broker"
	"github.com/rehop/rehop/internal/wire"
)

// tryLogin tries to log in, as a client that receives the reason if it is refused.
func tryLogin(t testing.TB, conn net.Conn, mechanism, response string) ending {
	t.Helper()
	p := newPeer(t, conn)
	capabilities := wire.Table{{Key: "capabilities", Value: wire.Table{{Key: "authentication_failure_close", Value: true}}}}
	p.send(append([]byte(wire.ProtocolHeader), wire.AppendMethod(nil, 0, &wire.ConnectionStartOK{ClientProperties: capabilities, Mechanism: mechanism, Response: []byte(response)})...))
	expect[*wire.ConnectionStart](p)
	m, err := p.method()
	if err != nil {
		return ending{hungUp: true}
	}
	if _, ok := m.(*wire.ConnectionTune); ok {
		return ending{}
	}
	refused, ok := m.(*wire.ConnectionClose)
	if !ok {
		t.Fatalf("got %s, want connection.tune or connection.close", m.ID())
	}
	_ = conn.Close()
	return ending{connection: refused.ReplyCode, hungUp: true}
}

// Guessing passwords costs the broker nothing that lasts.
func TestHostileGuesses(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	server := &broker.Server{Logger: quiet()}
	serves(t, dial(t, server))
	before := heap()
	for i := range 10_000 {
		guess := []struct{ mechanism, response string }{
			{"PLAIN", "\x00guest\x00" + rand.Text()}, {"PLAIN", "\x00" + rand.Text() + "\x00guest"}, {"AMQPLAIN", "\x05LOGINS\x00\x00\x00\x05guest"}, {"EXTERNAL", "guest"},
		}[i%4]
		conn := dial(t, server)
		if got, want := tryLogin(t, conn, guess.mechanism, guess.response), closesConnection(403); got != want {
			t.Fatalf("%s %q: got %v, want %v", guess.mechanism, guess.response, got, want)
		}
	}
	bounded(t, before, 32<<20)
	serves(t, dial(t, server))
	shut(t, server)
	settled(t, goroutines)
}

// from is a listener whose clients have another address.
type from struct {
	net.Listener
	address net.Addr
}

func (l from) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return foreign{conn, l.address}, err
}

type foreign struct {
	net.Conn
	address net.Addr
}

func (c foreign) RemoteAddr() net.Addr { return c.address }

// The default password cannot be used from another machine, whatever address the broker listens on.
func TestHostileGuest(t *testing.T) {
	for address, want := range map[string]ending{
		"192.0.2.1": closesConnection(403), "10.0.0.1": closesConnection(403), "0.0.0.0": closesConnection(403), "::ffff:192.0.2.1": closesConnection(403), "fe80::1": closesConnection(403),
		"127.0.0.1": {}, "127.8.8.8": {}, "::1": {}, "::ffff:127.0.0.1": {},
	} {
		t.Run(address, func(t *testing.T) {
			connect := listen(t, &broker.Server{Logger: quiet()}, func(ln net.Listener) net.Listener {
				return from{ln, &net.TCPAddr{IP: net.ParseIP(address), Port: 40000}}
			})
			if got := tryLogin(t, connect(), "PLAIN", "\x00guest\x00guest"); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	t.Run("user of one's own", func(t *testing.T) {
		server := &broker.Server{Logger: quiet(), Users: []broker.User{{Name: "app", Password: "secret", Permissions: map[string]broker.Permission{"/": {Configure: ".*", Write: ".*", Read: ".*"}}}}}
		connect := listen(t, server, func(ln net.Listener) net.Listener { return from{ln, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}} })
		if got, want := tryLogin(t, connect(), "PLAIN", "\x00app\x00secret"), (ending{}); got != want {
			t.Errorf("with its password: got %v, want %v", got, want)
		}
		if got, want := tryLogin(t, connect(), "PLAIN", "\x00guest\x00guest"), closesConnection(403); got != want {
			t.Errorf("as guest: got %v, want %v", got, want)
		}
	})
}

// selfSigned makes a certificate for localhost, and the pool that trusts it.
func selfSigned(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(certificate)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, trusted
}

// TLS below 1.2 is refused, even if a configuration allows it.
func TestHostileTLS(t *testing.T) {
	certificate, trusted := selfSigned(t)
	config := &tls.Config{MinVersion: tls.VersionTLS10, Certificates: []tls.Certificate{certificate}}
	for name, config := range map[string]*tls.Config{"one config": config, "a config for each client": {GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return config, nil }}} {
		t.Run(name, func(t *testing.T) { hostileTLS(t, config, trusted) })
	}
}

func hostileTLS(t *testing.T, config *tls.Config, trusted *x509.CertPool) {
	connect := listen(t, &broker.Server{Logger: quiet(), TLS: config}, nil)
	for version, allowed := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			conn := tls.Client(connect(), &tls.Config{ServerName: "localhost", RootCAs: trusted, MinVersion: version, MaxVersion: version})
			defer conn.Close()
			if err := conn.Handshake(); (err == nil) != allowed {
				t.Fatalf("handshake: got %v, want success: %t", err, allowed)
			}
			if allowed {
				serves(t, conn)
			}
		})
	}
	t.Run("plain AMQP", func(t *testing.T) {
		p := newPeer(t, connect())
		p.send(login("guest", "guest"))
		if got := p.end(); !got.hungUp {
			t.Errorf("got %v, want the broker to hang up", got)
		}
	})
}

// Names are not paths: nothing is written outside the broker's directory.
func TestHostileNames(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "a", "broker")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	server := start(t, &broker.Server{Dir: dir})
	p := enter(t, dial(t, server))
	for _, name := range []string{"../../escaped", "/escaped", "..", ".", "a/b", "nul\x00byte", "line\nend", "\u202e", "%2e%2e%2f"} {
		p.sendMethods(1, &wire.ExchangeDeclare{Exchange: name, Type: "fanout", Durable: true})
		expect[*wire.ExchangeDeclareOK](p)
		p.sendMethods(1, &wire.QueueDeclare{Queue: name, Durable: true})
		expect[*wire.QueueDeclareOK](p)
		p.publish("", name, wire.Properties{DeliveryMode: 2}, []byte("kept"))
	}
	p.sendMethods(1, &wire.TxSelect{}, &wire.TxCommit{}) // all of it is on disk then
	expect[*wire.TxSelectOK](p)
	expect[*wire.TxCommitOK](p)
	for place, want := range map[string]string{parent: "a", filepath.Join(parent, "a"): "broker"} {
		entries, err := os.ReadDir(place)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) != 1 || entries[0].Name() != want {
			t.Errorf("%s has %v, want %q alone", place, entries, want)
		}
	}
}
