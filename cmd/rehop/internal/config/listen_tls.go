package config

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rehop/rehop/internal/hosts"
)

// ListenTLS is the encryption of listeners. The zero value is none.
type ListenTLS struct {
	// Cert and Key are files with the certificate and its key.
	Cert, Key string
	// ClientCA is a file with the certificates that sign those of clients. Empty: clients need no certificate.
	ClientCA string
	// RequireClientCert refuses clients without a certificate.
	RequireClientCert bool
	// For are the listeners that it is for.
	For []string
}

// The names of listeners.
const (
	ListenerAMQP       = "amqp"
	ListenerManagement = "management"
	ListenerHTTP       = "http"
)

// Used reports whether a listener uses TLS.
func (t ListenTLS) Used(listener string) bool {
	return t.Cert != "" && slices.Contains(t.For, listener)
}

func (r *reader) listenTLS(t *ListenTLS) func(*yaml.Node) {
	return func(n *yaml.Node) {
		var clients string
		t.For = []string{ListenerAMQP, ListenerManagement, ListenerHTTP}
		at := r.mapping(n, "tls", keys{"cert": r.ownFile(&t.Cert), "key": r.ownFile(&t.Key), "client-ca": r.ownFile(&t.ClientCA),
			"client-cert": choice(r, &clients, "verify", "require"), "for": r.words(&t.For, t.For...)})
		if t.Cert == "" || t.Key == "" {
			r.fault(n, "tls of listen needs cert and key: files with the certificate of this program and with its key")
		}
		if clients != "" && t.ClientCA == "" {
			r.fault(at.at("client-cert"), "client-cert needs client-ca: a file with the certificates that sign those of clients")
		}
		t.RequireClientCert = clients == "require"
	}
}

// ownFile reads the path of a file of the service. To a client it only matters that there is one.
func (r *reader) ownFile(to *string) func(*yaml.Node) {
	if !r.client {
		return r.text(to)
	}
	return func(n *yaml.Node) { *to = n.Value }
}

// hosts reads names of hosts.
func (r *reader) hosts(to *[]string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		r.texts(to)(n)
		if _, err := hosts.New(*to...); err != nil {
			r.fault(n, "%s", err)
		}
	}
}
