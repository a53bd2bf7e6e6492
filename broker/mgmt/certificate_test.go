package mgmt

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"testing"
	"time"

	"github.com/rehop/rehop/broker"
)

// The check knows certificates that are chosen for each client, as those are that can be renewed.
func TestExpiringCertificates(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(0, 0, 10)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pair := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	fixed := &tls.Config{Certificates: []tls.Certificate{pair}}
	for name, config := range map[string]*tls.Config{
		"fixed":                  fixed,
		"a config of the client": {GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) { _ = hello.Conn.RemoteAddr(); return fixed, nil }},
		"one of the client":      {GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			d := testAPIOf(t, &broker.Server{Logger: quiet(), TLS: config})
			for within, want := range map[string]int{"1/weeks": http.StatusOK, "2/weeks": http.StatusServiceUnavailable} {
				d.must(want, "GET", "/api/health/checks/certificate-expiration/"+within, "")
			}
		})
	}
}
