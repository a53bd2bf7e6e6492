package clients

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// What npm fetches is what was chosen here: each package has a version and a SHA-512.
func TestLocked(t *testing.T) {
	var manifest struct{ Dependencies map[string]string }
	var lock struct {
		Packages map[string]struct {
			Version, Integrity string
			Dependencies       map[string]string
		}
	}
	for name, into := range map[string]any{wanted: &manifest, locked: &lock} {
		if err := json.Unmarshal(text(name), into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if root := lock.Packages[""].Dependencies; !maps.Equal(root, manifest.Dependencies) {
		t.Errorf("what is locked: got %v, want %v", root, manifest.Dependencies)
	}
	for name, version := range manifest.Dependencies {
		if got := lock.Packages["node_modules/"+name].Version; got != version {
			t.Errorf("version of %s: got %q, want %q", name, got, version)
		}
	}
	for name, p := range lock.Packages {
		if name != "" && (p.Version == "" || !strings.HasPrefix(p.Integrity, "sha512-")) {
			t.Errorf("%s: got version %q and integrity %q, want a version and a SHA-512", name, p.Version, p.Integrity)
		}
	}
}
