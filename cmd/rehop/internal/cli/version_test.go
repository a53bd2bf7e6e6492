package cli

import (
	"runtime/debug"
	"testing"
)

// The version that a release sets counts, then that of go install, then that there is none.
func TestDescribeBuild(t *testing.T) {
	installed := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.2.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "4f2a"}},
	}
	for name, c := range map[string]struct {
		version, revision         string
		info                      *debug.BuildInfo
		wantVersion, wantRevision string
	}{
		"release":                  {"v0.1.0", "77aa", installed, "v0.1.0", "77aa"},
		"release without revision": {"v0.1.0", "", installed, "v0.1.0", ""},
		"go install":               {"", "", installed, "v0.2.0", "4f2a"},
		"go build -buildvcs=false": {"", "", &debug.BuildInfo{}, "(devel)", ""},
		"no build info":            {"", "", nil, "(devel)", ""},
	} {
		got := describeBuild(c.version, c.revision, c.info)
		if got.Version != c.wantVersion || got.Revision != c.wantRevision {
			t.Errorf("%s: got version %q of revision %q, want %q of %q", name, got.Version, got.Revision, c.wantVersion, c.wantRevision)
		}
	}
}
