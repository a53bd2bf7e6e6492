package mgmt

import (
	"net/http"
	"strings"
	"testing"

	"github.com/rehop/rehop/broker"
)

// Who opens the address of the API and logs in learns that it has no pages.
func TestWelcome(t *testing.T) {
	server := &broker.Server{Logger: quiet()}
	defer server.Close()
	handler, err := Handler(server)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		user, method, path string
		want               int
	}{
		{"guest", "GET", "/", http.StatusOK}, {"guest", "HEAD", "/", http.StatusOK}, {"guest", "PUT", "/", http.StatusNotFound}, {"guest", "GET", "/api", http.StatusNotFound},
		{"nobody", "GET", "/", http.StatusUnauthorized},
	} {
		got := ask(handler, "127.0.0.1:5", tt.user, "guest", tt.method, tt.path, "")
		if got.Code != tt.want || (tt.want == http.StatusOK) != strings.Contains(got.Body.String(), "It has no pages") {
			t.Errorf("%s %s as %s: got %d %s, want %d", tt.method, tt.path, tt.user, got.Code, got.Body, tt.want)
		}
	}
}
