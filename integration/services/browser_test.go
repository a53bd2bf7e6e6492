package services

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The programs of a browser's tree start, and see that tree.
func TestBrowser(t *testing.T) {
	p := newPlace(t, "")
	p.up("browser")
	env := p.variables()
	if _, err := os.Stat(env["REHOP_AXE"]); err != nil {
		t.Errorf("axe-core: %v", err)
	}
	for _, c := range []struct{ program, flag, want string }{
		{env["REHOP_CHROMIUM"], "--version", "Chromium " + env["REHOP_CHROMIUM_VERSION"]},
		{env["REHOP_NGINX"], "-v", "nginx version: nginx/"},
	} {
		out, err := exec.CommandContext(limited(t), c.program, c.flag).CombinedOutput()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%s %s: got %q, %v, want %q", c.program, c.flag, out, err, c.want)
		}
	}
	if env["REHOP_CHROMIUM_VERSION"] == "" {
		t.Error("the version of Chromium is not known")
	}
}
