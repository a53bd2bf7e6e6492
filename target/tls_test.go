package target

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rehop/rehop"
)

// authority signs certificates.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	a := &authority{T: t}
	a.pem, _, a.cert, a.key = a.issue(name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue returns a certificate and its key, as text and as values. The first one of an authority is its own.
func (a *authority) issue(name string, template *x509.Certificate) (cert, key []byte, parsed *x509.Certificate, private *ecdsa.PrivateKey) {
	a.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	template.Subject, template.SerialNumber = pkix.Name{CommonName: name}, big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, private
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, private.Public(), signer)
	if err != nil {
		a.Fatal(err)
	}
	if parsed, err = x509.ParseCertificate(der); err != nil {
		a.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), parsed, private
}

// serve runs an endpoint with a certificate of the authority, which lets in only clients that have one, too. It sends their names.
func (a *authority) serve(clients chan<- string) *httptest.Server {
	a.Helper()
	cert, key, _, _ := a.issue("server", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		a.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { clients <- r.TLS.PeerCertificates[0].Subject.CommonName }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that are not let in
	server.StartTLS()
	a.Cleanup(server.Close)
	return server
}

// files are a certificate of a client and what it trusts, on disk.
func (a *authority) files(dir, name string) TLS {
	a.Helper()
	cert, key, _, _ := a.issue(name, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	files := TLS{CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for path, content := range map[string][]byte{files.CA: a.pem, files.Cert: cert, files.Key: key} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			a.Fatal(err)
		}
	}
	return files
}

// again lets a target compare its files at the next request.
func again(h *HTTP) {
	r := h.endpoint.client.Transport.(*renewing)
	r.mu.Lock()
	r.checked = time.Time{}
	r.mu.Unlock()
}

// A target shows its certificate to an endpoint whose certificate it can verify, and uses new files without a restart.
func TestTLS(t *testing.T) {
	t.Parallel()
	a, dir, clients := newAuthority(t, "first"), t.TempDir(), make(chan string, 1)
	server := a.serve(clients)
	h := &HTTP{URL: server.URL, TLS: a.files(dir, "one")}
	defer h.Close()
	if err := h.Validate(); err != nil {
		t.Fatal(err)
	}
	expect := func(name string) {
		t.Helper()
		if err := h.Handle(t.Context(), &rehop.Delivery{}); err != nil {
			t.Fatal(err)
		}
		if got := <-clients; got != name {
			t.Errorf("got a request of %q, want %q", got, name)
		}
	}
	expect("one")
	a.files(dir, "two")
	expect("one") // the files are compared from time to time only
	again(h)
	expect("two")

	// Files that cannot be used, as in the middle of a renewal, change nothing.
	if err := os.WriteFile(h.TLS.Key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again(h)
	expect("two")
	if err := os.Remove(h.TLS.Cert); err != nil {
		t.Fatal(err)
	}
	again(h)
	expect("two")

	// With another authority, the endpoint is not trusted any more: the connections to it are not used again.
	newAuthority(t, "second").files(dir, "three")
	again(h)
	if err := h.Handle(t.Context(), &rehop.Delivery{}); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("got %v, want that the endpoint is not trusted", err)
	}
	a.files(dir, "four")
	again(h)
	expect("four")
}

// An endpoint that wants a certificate does not get one from elsewhere, and one that is not trusted gets no message.
func TestTLSNeeded(t *testing.T) {
	t.Parallel()
	a, clients := newAuthority(t, "own"), make(chan string, 1)
	server := a.serve(clients)
	files := a.files(t.TempDir(), "client")
	for name, c := range map[string]struct {
		files TLS
		want  string
	}{
		"no certificate": {TLS{CA: files.CA}, "POST"}, // the endpoint may end the connection before its reason arrives
		"no authority":   {TLS{Cert: files.Cert, Key: files.Key}, "unknown authority"},
		"none":           {TLS{}, "unknown authority"},
	} {
		h := &HTTP{URL: server.URL, TLS: c.files}
		if err := h.Handle(t.Context(), &rehop.Delivery{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
		h.Close()
	}
	if len(clients) != 0 {
		t.Error("a message has arrived")
	}
}

// Files that cannot be used are reported at the start, all by their names and without their content. Without earlier ones, messages wait.
func TestTLSFiles(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t, "own"), t.TempDir()
	files := a.files(dir, "client")
	other := newAuthority(t, "other").files(t.TempDir(), "other")
	noPEM := filepath.Join(dir, "no.pem")
	if err := os.WriteFile(noPEM, []byte("secret text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files TLS
		want  string
	}{
		"missing":    {TLS{CA: "/no/such/file"}, "TLS CA /no/such/file: no such file or directory"},
		"no PEM":     {TLS{CA: noPEM}, "has no certificate in PEM"},
		"half":       {TLS{Cert: files.Cert}, "Cert and Key belong together"},
		"other key":  {TLS{Cert: files.Cert, Key: other.Key}, "private key does not match"},
		"key no PEM": {TLS{Cert: files.Cert, Key: noPEM}, "failed to find any PEM data"},
	} {
		h := &HTTP{URL: "https://127.0.0.1:1/", TLS: c.files}
		err := h.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret text") {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
		err = h.Handle(t.Context(), &rehop.Delivery{})
		if rehop.KindOf(err) != rehop.KindError || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the handler returned %v, want %s", name, err, c.want)
		}
	}
	if err := (&HTTP{URL: "https://127.0.0.1:1/", TLS: files, Client: &http.Client{}}).Validate(); err == nil || !strings.Contains(err.Error(), "Client cannot be combined") {
		t.Errorf("with a client: got %v, want that it cannot be combined", err)
	}
}
