package mgmt

import (
	"net/http"
	"testing"

	"github.com/rehop/rehop/broker"
)

// A guest that the directory has does not exist any more when users are configured, whatever its password is. Neither a
// request nor an import creates it then. Without users it is there again, as it was changed.
func TestGuestEndsWithConfiguredUsers(t *testing.T) {
	for name, prepare := range map[string]func(*testAPI){
		"imported": func(d *testAPI) {
			definitions := d.must(http.StatusOK, "GET", "/api/definitions", "").body
			d.must(http.StatusNoContent, "POST", "/api/definitions", definitions)
		},
		"changed": func(d *testAPI) {
			d.must(http.StatusNoContent, "PUT", "/api/users/guest", `{"password": "guest", "tags": "administrator"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var definitions string
			t.Run("without users", func(t *testing.T) {
				d := testAPIOf(t, &broker.Server{Dir: dir, Logger: quiet()})
				prepare(d)
				definitions = d.must(http.StatusOK, "GET", "/api/definitions", "").body
			})
			t.Run("with users", func(t *testing.T) {
				d := testAPIOf(t, &broker.Server{Dir: dir, Logger: quiet(), Users: []broker.User{{Name: "ops", Password: "secret", Tags: []string{"administrator"}}}})
				gone := func(after string) {
					t.Helper()
					if got := d.do("GET", "/api/whoami", ""); got.status != http.StatusUnauthorized {
						t.Errorf("%s: guest gets %d, want 401", after, got.status)
					}
					if got := d.as("ops", "secret", "GET", "/api/users/guest", ""); got.status != http.StatusNotFound {
						t.Errorf("%s: got %d %s, want no user guest", after, got.status, got.body)
					}
				}
				gone("start")
				if got := d.as("ops", "secret", "PUT", "/api/users/guest", `{"password": "other", "tags": ""}`); got.status != http.StatusBadRequest {
					t.Errorf("PUT: got %d %s, want 400", got.status, got.body)
				}
				gone("PUT")
				if got := d.as("ops", "secret", "POST", "/api/definitions", definitions); got.status != http.StatusNoContent {
					t.Errorf("import: got %d %s, want that everything else is imported", got.status, got.body)
				}
				gone("import")
			})
			t.Run("guest is one of the users", func(t *testing.T) {
				d := testAPIOf(t, &broker.Server{Dir: dir, Logger: quiet(), Users: []broker.User{{Name: "guest", Password: "secret", Tags: []string{"administrator"}}}})
				if got := d.as("guest", "secret", "GET", "/api/whoami", ""); got.status != http.StatusOK {
					t.Errorf("got %d %s, want that the configuration decides", got.status, got.body)
				}
			})
			t.Run("without users again", func(t *testing.T) {
				testAPIOf(t, &broker.Server{Dir: dir, Logger: quiet()}).must(http.StatusOK, "GET", "/api/whoami", "")
			})
		})
	}
}
