package target

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"time"
)

// TLS names files in PEM for connections to an endpoint. When they change, new connections use the new content: a renewed certificate
// needs no restart. Files that cannot be used are ignored as long as there are earlier ones.
type TLS struct {
	// CA is the file of the certificates that sign those of the endpoint. Default: the system's root certificates.
	CA string
	// Cert and Key are the files of the client certificate and its private key. Set both or none. Default: none.
	Cert, Key string
}

// load reads the files. sum identifies their content.
func (t TLS) load() (config *tls.Config, sum [sha256.Size]byte, err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	digest := sha256.New()
	read := func(what, path string) []byte {
		if path == "" || err != nil {
			return nil
		}
		content, failed := os.ReadFile(path)
		if failed != nil {
			err = fmt.Errorf("TLS %s %s: %w", what, path, withoutPath(failed))
		}
		fmt.Fprintf(digest, "%s %d ", what, len(content))
		digest.Write(content)
		return content
	}
	ca, cert, key := read("CA", t.CA), read("Cert", t.Cert), read("Key", t.Key)
	if err != nil {
		return nil, sum, err
	}
	digest.Sum(sum[:0])
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return nil, sum, fmt.Errorf("TLS CA %s: it has no certificate in PEM", t.CA)
		}
	}
	switch {
	case (t.Cert == "") != (t.Key == ""):
		return nil, sum, errors.New("TLS Cert and Key belong together: give both")
	case t.Cert != "":
		pair, err := tls.X509KeyPair(cert, key) // its errors have nothing of the files
		if err != nil {
			return nil, sum, fmt.Errorf("TLS Cert %s and Key %s: %w", t.Cert, t.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, sum, nil
}

// reloadEvery is how often the files are compared with what is used.
const reloadEvery = 10 * time.Second

// renewing is a transport for files that may change. A changed file makes a new transport, so that no connection of the old one is used
// for another request.
type renewing struct {
	files TLS
	open  func(*tls.Config) *http.Transport

	mu      sync.Mutex
	current *http.Transport
	sum     [sha256.Size]byte
	checked time.Time // when the files were read last; zero at first, so that the first request reads them
}

// RoundTrip sends a request.
func (r *renewing) RoundTrip(request *http.Request) (*http.Response, error) {
	transport, err := r.transport()
	if err != nil {
		return nil, &filesError{err}
	}
	return transport.RoundTrip(request)
}

// CloseIdleConnections closes connections that no request uses.
func (r *renewing) CloseIdleConnections() {
	r.mu.Lock()
	current := r.current
	r.mu.Unlock()
	if current != nil {
		current.CloseIdleConnections()
	}
}

func (r *renewing) transport() (*http.Transport, error) {
	r.mu.Lock()
	current, sum, due := r.current, r.sum, time.Since(r.checked) >= reloadEvery
	if due {
		r.checked = time.Now() // others use the current one meanwhile
	}
	r.mu.Unlock()
	if current != nil && !due {
		return current, nil
	}
	config, now, err := r.files.load()
	switch {
	case err != nil && current == nil:
		return nil, err
	case err != nil || current != nil && now == sum:
		return current, nil // a renewal may be half done
	}
	next := r.open(config)
	r.mu.Lock()
	if r.current != current { // another request was faster
		next, current = r.current, nil
	} else {
		r.current, r.sum = next, now
	}
	r.mu.Unlock()
	if current != nil {
		current.CloseIdleConnections()
	}
	return next, nil
}

// filesError means that the files cannot be used, which is not the fault of a message.
type filesError struct{ err error }

func (e *filesError) Error() string { return e.err.Error() }
func (e *filesError) Unwrap() error { return e.err }
