package rabbitmq

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// makeCertificates makes a CA, a server certificate for localhost and a client certificate for the user rehop-external, unless the
// directory exists.
func makeCertificates(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dir), ".certs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) // gone if it could be renamed
	ca, err := certify(fresh, "ca", nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "rehop test CA"}, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign})
	if err != nil {
		return fmt.Errorf("make certificate of the CA: %w", err)
	}
	if _, err := certify(fresh, "server", ca, &x509.Certificate{
		Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
		return fmt.Errorf("make certificate of the server: %w", err)
	}
	if _, err := certify(fresh, "client", ca, &x509.Certificate{
		Subject:  pkix.Name{CommonName: "rehop-external"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fmt.Errorf("make certificate of the client: %w", err)
	}
	err = os.Rename(fresh, dir)
	if errors.Is(err, fs.ErrExist) {
		return nil // another process was quicker
	}
	return err
}

// authority is what certificates are signed with.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// certify writes NAME.pem and NAME.key. Without an authority the certificate signs itself.
func certify(dir, name string, by *authority, template *x509.Certificate) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.AddDate(10, 0, 0)
	template.BasicConstraintsValid = true
	if by == nil {
		by = &authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key.Public(), by.key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	if err := writePEM(filepath.Join(dir, name+".pem"), "CERTIFICATE", der); err != nil {
		return nil, err
	}
	if err := writePEM(filepath.Join(dir, name+".key"), "PRIVATE KEY", private); err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate, key}, err
}

func writePEM(name, kind string, content []byte) error {
	return os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600)
}
