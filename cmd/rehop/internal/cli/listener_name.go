package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"strings"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// listenerName is the name by which the certificate of a listener of a file is checked. "": it is the host of the URL. Commands reach such a listener at an
// address of this machine, and its certificate often has only the name by which other machines know it. The file lists the certificate, so its first name
// is as good.
func listenerName(file *config.File, listener, host string) string {
	if !file.Listen.TLS.Used(listener) {
		return ""
	}
	text, err := os.ReadFile(file.Listen.TLS.Cert)
	if err != nil {
		return "" // whoever may not read it needs --broker, as for a broker on another machine
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return ""
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil || leaf.VerifyHostname(host) == nil:
		return ""
	case len(leaf.DNSNames) > 0:
		return strings.Replace(leaf.DNSNames[0], "*", "localhost", 1)
	case len(leaf.IPAddresses) > 0:
		return leaf.IPAddresses[0].String()
	}
	return ""
}

// checking returns TLS settings that check another name than that of the host, unless it is "".
func checking(encryption *tls.Config, name string) *tls.Config {
	if name == "" {
		return encryption
	}
	named := encryption.Clone()
	if named == nil {
		named = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	named.ServerName = name
	return named
}
