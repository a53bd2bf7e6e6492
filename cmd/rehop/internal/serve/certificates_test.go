package serve_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
	"github.com/rehop/rehop/cmd/rehop/internal/config"
	"github.com/rehop/rehop/cmd/rehop/internal/serve"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	serial      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	der, key := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	a.certificate, a.key = certificate, key
	return a
}

// sign signs a certificate; the first one signs itself.
func (a *authority) sign(t *testing.T, template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a.serial++
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(a.serial), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.certificate, a.key
	if parent == nil {
		parent, signer = template, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer); err != nil {
		t.Fatal(err)
	}
	return der, key
}

// leaf returns the certificate of a server or a client.
func (a *authority) leaf(t *testing.T, name string) tls.Certificate {
	t.Helper()
	der, key := a.sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// files are the files of a server's certificate.
type files struct{ cert, key, ca string }

func newFiles(t *testing.T) files {
	dir := t.TempDir()
	return files{filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")}
}

func (f files) writeKey(t *testing.T, c tls.Certificate) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, f.key, "PRIVATE KEY", der)
}

func (f files) write(t *testing.T, c tls.Certificate) {
	t.Helper()
	writePEM(t, f.cert, "CERTIFICATE", c.Certificate[0])
	f.writeKey(t, c)
}

// dialed connects to the listener of a URL.
func dialed(t *testing.T, at string, client *tls.Config) (*tls.Conn, error) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Dial("tcp", u.Host, client)
}

// shown connects to a listener and returns the serial number of its certificate.
func shown(t *testing.T, at string, client *tls.Config) (serial int64, err error) {
	t.Helper()
	conn, err := dialed(t, at, client)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64(), nil
}

// All listeners use TLS, and show a renewed certificate without a restart. While only one of its files is there, or one is damaged, they keep
// the previous one.
func TestListenersWithTLS(t *testing.T) {
	t.Parallel()
	signs, at := newAuthority(t), newFiles(t)
	at.write(t, signs.leaf(t, "first"))
	log := &journal{}
	r := start(t, nil, func() string {
		return fmt.Sprintf("listen: {tls: {cert: '%s', key: '%s'}}\nflows: {}", at.cert, at.key)
	},
		func(s *serve.Service) { s.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	for address, scheme := range map[string]string{r.AMQP: "amqps://", r.Management: "https://", r.HTTP: "https://"} {
		if !strings.HasPrefix(address, scheme) {
			t.Errorf("got %s, want %s", address, scheme)
		}
	}
	trust := &tls.Config{RootCAs: signs.pool()}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}}
	defer web.CloseIdleConnections()
	for _, address := range []string{r.HTTP + "/healthz", strings.Replace(r.Management, "//", "//guest:guest@", 1) + "/api/whoami"} {
		answer, err := web.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || answer.Proto != "HTTP/2.0" {
			t.Errorf("%s: got %d by %s, want 200 by HTTP/2.0", address, answer.StatusCode, answer.Proto)
		}
	}
	client, err := rehop.Open(t.Context(), rehop.Config{URL: r.AMQP, TLS: trust, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(t.Context())
	want := func(serial int64, when string) {
		t.Helper()
		for _, address := range []string{r.AMQP, r.Management, r.HTTP} {
			if got, err := shown(t, address, trust); err != nil || got != serial {
				t.Errorf("%s: %s: got certificate %d and %v, want %d", when, address, got, err, serial)
			}
		}
	}
	want(signs.serial, "at the start")
	next := signs.leaf(t, "second")
	writePEM(t, at.cert, "CERTIFICATE", next.Certificate[0])
	want(signs.serial-1, "with the new certificate and the old key")
	if !strings.Contains(log.String(), "the renewed certificate cannot be used; the previous one stays") {
		t.Errorf("the log does not have why:\n%s", log)
	}
	at.writeKey(t, next)
	want(signs.serial, "with both new files")
	if !strings.Contains(log.String(), `msg="the certificate was renewed"`) {
		t.Errorf("the log does not have the renewal:\n%s", log)
	}
	if err := os.Remove(at.key); err != nil {
		t.Fatal(err)
	}
	want(signs.serial, "without the key")
	// A connection that was open all the time works.
	if err := client.Publish(t.Context(), rehop.Message{Key: "nobody"}); !errors.Is(err, rehop.ErrUnroutable) {
		t.Errorf("got %v from the open connection, want ErrUnroutable", err)
	}
}

// Clients can have a certificate, and log in with it. If it is required, nobody connects without one, except to the listeners that have no TLS.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	signs, others, at := newAuthority(t), newAuthority(t), newFiles(t)
	at.write(t, signs.leaf(t, "server"))
	writePEM(t, at.ca, "CERTIFICATE", signs.certificate.Raw)
	with := func(certificates ...tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: signs.pool(), Certificates: certificates}
	}
	for mode, bare := range map[string]bool{"verify": true, "require": false} {
		t.Run(mode, func(t *testing.T) {
			text := fmt.Sprintf("listen: {tls: {cert: '%s', key: '%s', client-ca: '%s', client-cert: %s, for: [amqp, management]}}\nusers: {device: {}}\nflows: {}", at.cert, at.key, at.ca, mode)
			r := start(t, nil, func() string { return text }, func(s *serve.Service) { s.Embedded.Users = []config.User{{Name: "device"}} })
			open := func(encryption *tls.Config) error {
				client, err := rehop.Open(t.Context(), rehop.Config{URL: r.AMQP, TLS: encryption, External: true, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					return err
				}
				defer client.Close(t.Context())
				if err := client.Publish(t.Context(), rehop.Message{Key: "nobody"}); !errors.Is(err, rehop.ErrUnroutable) {
					return err
				}
				return nil
			}
			if err := open(with(signs.leaf(t, "device"))); err != nil {
				t.Errorf("with a certificate: got %v, want a login", err)
			}
			for name, certificate := range map[string]tls.Certificate{"of another user": signs.leaf(t, "nobody"), "of the flows": signs.leaf(t, config.InternalUser)} {
				if err := open(with(certificate)); err == nil || !strings.Contains(err.Error(), "403") {
					t.Errorf("with a certificate %s: got %v, want 403", name, err)
				}
			}
			reaches := func(encryption *tls.Config) bool {
				web := &http.Client{Transport: &http.Transport{TLSClientConfig: encryption}}
				defer web.CloseIdleConnections()
				answer, err := web.Get(r.Management + "/api/whoami")
				if err != nil {
					return false
				}
				_ = answer.Body.Close()
				return true
			}
			if reaches(with()) != bare || !reaches(with(signs.leaf(t, "any"))) {
				t.Errorf("got an answer without a certificate: %v, want %v", !bare, bare)
			}
			foreign := others.leaf(t, "device")
			always := with()
			always.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &foreign, nil }
			if reaches(always) {
				t.Error("a certificate that another authority has signed is accepted")
			}
			if code, _ := get(t, r.HTTP+"/healthz"); code != http.StatusOK {
				t.Errorf("health without TLS: got %d, want 200", code)
			}
		})
	}
}

// greeted connects to a broker, and returns an error if it does not answer the first bytes of AMQP. Before TLS 1.3 has an answer of the server, the
// client does not know whether its certificate is accepted.
func greeted(t *testing.T, at string, client *tls.Config) error {
	t.Helper()
	conn, err := dialed(t, at, client)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("AMQP\x00\x00\x09\x01")); err != nil {
		return err
	}
	_, err = conn.Read(make([]byte, 1))
	return err
}

// A renewed file of those who sign clients' certificates is used without a restart, and its connections stay. While it is damaged, the previous one is used.
func TestClientAuthorityIsRenewed(t *testing.T) {
	t.Parallel()
	server, first, second, at := newAuthority(t), newAuthority(t), newAuthority(t), newFiles(t)
	at.write(t, server.leaf(t, "server"))
	writePEM(t, at.ca, "CERTIFICATE", first.certificate.Raw)
	log := &journal{}
	text := fmt.Sprintf("listen: {tls: {cert: '%s', key: '%s', client-ca: '%s', client-cert: require}}\nusers: {device: {}}\nflows: {}", at.cert, at.key, at.ca)
	r := start(t, nil, func() string { return text }, func(s *serve.Service) {
		s.Embedded.Users, s.Logger = []config.User{{Name: "device"}}, slog.New(slog.NewTextHandler(log, nil))
	})
	// A client would not show a certificate whose authority the listener does not name.
	with := func(certificate tls.Certificate) *tls.Config {
		return &tls.Config{RootCAs: server.pool(), GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }}
	}
	byFirst, bySecond := with(first.leaf(t, "device")), with(second.leaf(t, "device"))
	want := func(when string, firstMay, secondMay bool) {
		t.Helper()
		for name, client := range map[string]struct {
			encryption *tls.Config
			may        bool
		}{"first": {byFirst, firstMay}, "second": {bySecond, secondMay}} {
			if err := greeted(t, r.AMQP, client.encryption); (err == nil) != client.may {
				t.Errorf("%s, AMQP with a certificate of the %s authority: got %v, want it accepted: %v", when, name, err, client.may)
			}
			web := &http.Client{Transport: &http.Transport{TLSClientConfig: client.encryption}}
			for _, address := range []string{r.Management + "/api/whoami", r.HTTP + "/healthz"} {
				answer, err := web.Get(address)
				if err == nil {
					_ = answer.Body.Close()
				}
				if (err == nil) != client.may {
					t.Errorf("%s, %s with a certificate of the %s authority: got %v, want it accepted: %v", when, address, name, err, client.may)
				}
			}
			web.CloseIdleConnections()
		}
	}
	want("at the start", true, false)
	open, err := rehop.Open(t.Context(), rehop.Config{URL: r.AMQP, TLS: byFirst, External: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close(t.Context())
	if err := os.WriteFile(at.ca, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("while the file is damaged", true, false)
	if !strings.Contains(log.String(), "the renewed certificate cannot be used; the previous one stays") || !strings.Contains(log.String(), at.ca) {
		t.Errorf("the log does not have why:\n%s", log)
	}
	writePEM(t, at.ca, "CERTIFICATE", second.certificate.Raw)
	want("with the second authority", false, true)
	if err := open.Publish(t.Context(), rehop.Message{Key: "nobody"}); !errors.Is(err, rehop.ErrUnroutable) {
		t.Errorf("got %v from the open connection, want ErrUnroutable", err)
	}
}

// Files that cannot be used are an error at the start, which names them.
func TestUnusableCertificates(t *testing.T) {
	t.Parallel()
	signs, at := newAuthority(t), newFiles(t)
	at.write(t, signs.leaf(t, "server"))
	for text, want := range map[string]string{
		fmt.Sprintf("listen: {tls: {cert: '%s', key: '%s'}}", at.cert, at.cert):                         at.cert,
		fmt.Sprintf("listen: {tls: {cert: missing.crt, key: '%s'}}", at.key):                            "missing.crt",
		fmt.Sprintf("listen: {tls: {cert: '%s', key: '%s', client-ca: '%s'}}", at.cert, at.key, at.key): at.key + " has no certificate",
	} {
		s := serve.Service{Load: func() (*config.File, error) {
			return config.Parse("rehop.yaml", []byte(text), func(string) (string, bool) { return "", false })
		},
			Embedded: &serve.Embedded{AMQP: "127.0.0.1:0"}, Env: func(string) (string, bool) { return "", false }, Logger: slog.New(slog.DiscardHandler)}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "listen.tls") {
			t.Errorf("%s: got %v, want listen.tls and %s", text, err, want)
		}
	}
}
