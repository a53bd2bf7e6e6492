package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The order of the certificates, copies and comments make no difference.
func TestCertificates(t *testing.T) {
	one, two := readFile(t, authority(t)), readFile(t, authority(t))
	read := func(text ...[]byte) []byte {
		file := filepath.Join(t.TempDir(), "all.pem")
		if err := os.WriteFile(file, bytes.Join(text, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readCertificates(file)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b := read(one, two), read([]byte("# comment\n"), two, one, two)
	if !bytes.Equal(a, b) || len(a) != len(one)+len(two) {
		t.Errorf("got %d bytes and %d bytes, want the same %d", len(a), len(b), len(one)+len(two))
	}
}

func TestCertificatesRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":       "has no certificates",
		"a text": "has no certificates",
		"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n": "is not a certificate",
	} {
		file := filepath.Join(t.TempDir(), "all.pem")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readCertificates(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	if _, err := readCertificates(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "-certificates") {
		t.Errorf("a file that does not exist: got %v, want what to do", err)
	}
}
