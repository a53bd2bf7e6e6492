package hosts_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rehop/rehop/internal/hosts"
)

// The broker's own test has the names. A handler refuses other hosts, and changes from pages of other sites.
func TestHandler(t *testing.T) {
	list, err := hosts.New("rehop.example")
	if err != nil {
		t.Fatal(err)
	}
	handler := list.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for _, c := range []struct {
		method, host, origin string
		want                 int
	}{
		{"GET", "rehop.example", "", 204}, {"GET", "evil.example", "", 421}, {"GET", "", "", 204}, {"GET", "127.0.0.1:9419", "http://evil.example", 204},
		{"POST", "rehop.example", "http://rehop.example", 204}, {"POST", "rehop.example", "http://evil.example", 403}, {"POST", "evil.example", "http://evil.example", 421},
	} {
		r, w := httptest.NewRequest(c.method, "/", nil), httptest.NewRecorder()
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		handler.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%s of %q from %q: got %d %s, want %d", c.method, c.host, c.origin, w.Code, w.Body, c.want)
		}
		if w.Code == http.StatusMisdirectedRequest && !strings.Contains(w.Body.String(), "add it to hosts in rehop.yaml") {
			t.Errorf("got %s, want how to allow it", w.Body)
		}
	}
}
