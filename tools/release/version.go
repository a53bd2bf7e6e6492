package main

import (
	"fmt"
	"regexp"
	"strings"
)

// version is a semantic version with a leading v.
type version string

var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+([.-][0-9A-Za-z]+)*)?$`)

func parseVersion(text string) (version, error) {
	if !semantic.MatchString(text) {
		return "", fmt.Errorf("%q is not a version; write it as v0.1.0 or v0.2.0-rc.1", text)
	}
	return version(text), nil
}

// number is the version without its v, for the names of files and images.
func (v version) number() string { return strings.TrimPrefix(string(v), "v") }

// debian is the version as dpkg compares it: with ~, a candidate comes before its release.
func (v version) debian() string {
	number, candidate, found := strings.Cut(v.number(), "-")
	if !found {
		return number
	}
	return number + "~" + strings.ReplaceAll(candidate, "-", ".")
}

// dirty reports whether the version admits that it has changes that no commit has.
func (v version) dirty() bool { return strings.HasSuffix(string(v), "-dirty") }
