package main

import "testing"

func TestVersion(t *testing.T) {
	for text, debian := range map[string]string{
		"v0.1.0": "0.1.0", "v1.20.3-rc.1": "1.20.3~rc.1", "v0.1.0-rc.1-dirty": "0.1.0~rc.1.dirty",
	} {
		v, err := parseVersion(text)
		if err != nil || v.debian() != debian {
			t.Errorf("%s: got the Debian version %q, %v, want %q", text, v.debian(), err, debian)
		}
	}
	for _, text := range []string{"", "0.1.0", "v1", "v1.2", "v01.2.3", "v1.2.3+meta", "v1.2.3-", "v1.2.3/..", "v1.2.3 -X a.b=c"} {
		if v, err := parseVersion(text); err == nil {
			t.Errorf("%q: got %q, want an error", text, v)
		}
	}
}

func TestPlatform(t *testing.T) {
	for _, p := range allPlatforms() {
		if got, err := parsePlatform(p.String()); err != nil || got != p {
			t.Errorf("%s: got %v, %v", p, got, err)
		}
	}
	for _, text := range []string{"", "linux", "linux/riscv64", "amd64/linux"} {
		if got, err := parsePlatform(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}
