package serve_test

import (
	"net/http"
	"strings"
	"testing"
)

// The user of the flows is not listed and cannot be changed, and their connections are listed like those of others.
func TestInternalUserIsShownOnlyByItsConnections(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "flows: {work: {target: {command: ['true']}}}")
	if code, body := get(t, r.api(t, "users")); code != http.StatusOK || strings.Contains(body, "rehop-internal") {
		t.Errorf("users: got %d %s, want all but rehop-internal", code, body)
	}
	if code, body := get(t, r.api(t, "users/rehop-internal")); code != http.StatusNotFound {
		t.Errorf("user: got %d %s, want 404", code, body)
	}
	if code, body := get(t, r.api(t, "connections")); code != http.StatusOK || !strings.Contains(body, `"user":"rehop-internal"`) || !strings.Contains(body, `"internal":true`) {
		t.Errorf("connections: got %d %s, want those of the flows", code, body)
	}
}
