package rehop

import (
	"runtime/debug"
	"testing"
)

// Without a version in the configuration it is that of the main module, or else the revision of the source.
func TestDefaultVersion(t *testing.T) {
	revision := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123"}}
	changed := append(revision[:1:1], debug.BuildSetting{Key: "vcs.modified", Value: "true"})
	for want, info := range map[string]*debug.BuildInfo{
		"":                   nil,
		"v1.4.2":             {Main: debug.Module{Version: "v1.4.2"}, Settings: revision},
		"0123456789ab":       {Main: debug.Module{Version: "(devel)"}, Settings: revision},
		"0123456789ab+dirty": {Settings: changed},
	} {
		if got := versionOf(info); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := versionOf(&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}); got != "" {
		t.Errorf("got %q of a program without a version, want none", got)
	}
}
