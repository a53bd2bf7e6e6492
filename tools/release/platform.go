package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and a processor, as Go names them.
type platform struct {
	os, arch string
}

// allPlatforms are those that a release has.
func allPlatforms() []platform {
	var all []platform
	for _, system := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			all = append(all, platform{system, arch})
		}
	}
	return all
}

func hostPlatform() platform { return platform{runtime.GOOS, runtime.GOARCH} }

func parsePlatform(text string) (platform, error) {
	system, arch, _ := strings.Cut(text, "/")
	p := platform{system, arch}
	if !slices.Contains(allPlatforms(), p) {
		return platform{}, fmt.Errorf("there is no release for the platform %q; the platforms are %v", text, allPlatforms())
	}
	return p, nil
}

func (p platform) String() string { return p.os + "/" + p.arch }

// program is the name of the binary.
func (p platform) program() string {
	if p.os == "windows" {
		return "rehop.exe"
	}
	return "rehop"
}
