package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// LoadPair reads a certificate and its key.
func LoadPair(cert, key string) (tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("read the certificate %s and its key %s: %w", cert, key, located(err))
	}
	return pair, nil
}

// LoadSigners reads certificates that sign others.
func LoadSigners(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the certificates that sign others: %w", located(err))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM format", file)
	}
	return pool, nil
}

// located adds the directory to the error of a relative path that does not exist: it is not that of rehop.yaml.
func located(err error) error {
	path, ok := errors.AsType[*fs.PathError](err)
	if !ok || filepath.IsAbs(path.Path) || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir, failed := os.Getwd()
	if failed != nil {
		return err
	}
	return fmt.Errorf("%w; relative paths are relative to the working directory, here %s", err, dir)
}

// certificates reports the certificates of a file that cannot be read here.
func (r *reader) certificates(f *File, at places, listen places) {
	report := func(place places, key string, err error) {
		if err != nil {
			r.fault(place.at(key), "%s", err)
		}
	}
	if t := f.Listen.TLS; t.Cert != "" && t.Key != "" {
		_, err := LoadPair(t.Cert, t.Key)
		report(listen, "tls", err)
		if t.ClientCA != "" {
			_, err = LoadSigners(t.ClientCA)
			report(listen, "tls", err)
		}
	}
	if t := f.TLS; t.Cert != "" && t.Key != "" {
		_, err := LoadPair(t.Cert, t.Key)
		report(at, "tls", err)
	}
	if f.TLS.CA != "" {
		_, err := LoadSigners(f.TLS.CA)
		report(at, "tls", err)
	}
}
