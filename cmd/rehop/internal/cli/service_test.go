package cli

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/rehop/rehop/cmd/rehop/internal/config"
)

// A service reaches the management API by the certificates of its file.
func TestManagementOfAFile(t *testing.T) {
	t.Parallel()
	api := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer api.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &command{Surroundings: Surroundings{Env: func(string) (string, bool) { return "", false }}}
	url, client, err := c.managementOf(&config.File{Management: api.URL, TLS: config.TLS{CA: ca}})
	if err != nil || url != api.URL {
		t.Fatalf("got %s and error %v, want %s", url, err, api.URL)
	}
	defer client.CloseIdleConnections()
	answer, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
}
