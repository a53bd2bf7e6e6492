package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	purlForm   = regexp.MustCompile(`^pkg:golang/[A-Za-z0-9._~!/-]+@[A-Za-z0-9._%-]+$`)
	serialForm = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
)

// Each SBOM names its binary by its checksum, and all modules that are in it.
func checkSBOM(t *testing.T, p published) {
	for _, on := range p.platforms {
		var list struct {
			BOMFormat, SpecVersion, SerialNumber string
			Metadata                             struct {
				Timestamp string
				Component listed
			}
			Components   []listed
			Dependencies []struct {
				Ref       string
				DependsOn []string
			}
		}
		file := "rehop_" + p.version.number() + "_" + on.os + "_" + on.arch + ".cdx.json"
		if err := json.Unmarshal(readFile(t, filepath.Join(p.dir, file)), &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if list.BOMFormat != "CycloneDX" || list.SpecVersion != "1.6" || !serialForm.MatchString(list.SerialNumber) {
			t.Errorf("%s: got format %s %s with the number %s", file, list.BOMFormat, list.SpecVersion, list.SerialNumber)
		}
		binary := p.binary(t, on)
		program := list.Metadata.Component
		if got, want := program.sum(), fmt.Sprintf("%x", sha256.Sum256(binary)); got != want || program.Version != string(p.version) {
			t.Errorf("%s is about version %s with checksum %s, want %s with %s", file, program.Version, got, p.version, want)
		}
		info, err := buildinfo.Read(bytes.NewReader(binary))
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"stdlib": strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			want[m.Path] = m.Version
			if m.Path == mainModule || m.Path == mainModule+"/rehopotel" {
				want[m.Path] = string(p.version)
			}
		}
		for _, c := range list.Components {
			if want[c.Name] != c.Version || !purlForm.MatchString(c.Purl) || c.Ref != c.Purl {
				t.Errorf("%s has %+v, want version %q and a package URL", file, c, want[c.Name])
			}
			if own := strings.HasPrefix(c.Name, mainModule) || c.Name == "stdlib"; len(c.sum()) != 2*sha256.Size && !own {
				t.Errorf("%s has %s with the checksum %q", file, c.Name, c.sum())
			}
			delete(want, c.Name)
		}
		if len(want) > 0 {
			t.Errorf("%s does not have %v", file, want)
		}
		if d := list.Dependencies; len(d) != 1 || d[0].Ref != program.Ref || len(d[0].DependsOn) != len(list.Components) {
			t.Errorf("%s: got dependencies %+v, want all components as those of the program", file, d)
		}
	}
}

// listed is a component of an SBOM.
type listed struct {
	Type, Name, Version, Purl string
	Ref                       string `json:"bom-ref"`
	Hashes                    []struct{ Alg, Content string }
}

func (l listed) sum() string {
	if len(l.Hashes) != 1 || l.Hashes[0].Alg != "SHA-256" {
		return ""
	}
	return l.Hashes[0].Content
}

func TestComponent(t *testing.T) {
	got := component("library", "github.com/docker/docker", "v28.0.0+incompatible").Purl
	if want := "pkg:golang/github.com/docker/docker@v28.0.0%2Bincompatible"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
