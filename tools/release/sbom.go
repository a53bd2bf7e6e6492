package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
)

// The parts of CycloneDX 1.6 that an SBOM of a binary uses.
type (
	bom struct {
		Schema       string          `json:"$schema"`
		Format       string          `json:"bomFormat"`
		Spec         string          `json:"specVersion"`
		Serial       string          `json:"serialNumber"`
		Version      int             `json:"version"`
		Metadata     bomMetadata     `json:"metadata"`
		Components   []bomComponent  `json:"components"`
		Dependencies []bomDependency `json:"dependencies"`
	}
	bomMetadata struct {
		Timestamp string       `json:"timestamp"`
		Component bomComponent `json:"component"`
	}
	bomComponent struct {
		Type       string        `json:"type"`
		Ref        string        `json:"bom-ref"`
		Name       string        `json:"name"`
		Version    string        `json:"version"`
		Purl       string        `json:"purl"`
		Hashes     []bomHash     `json:"hashes,omitempty"`
		Licenses   []bomLicense  `json:"licenses,omitempty"`
		Properties []bomProperty `json:"properties,omitempty"`
	}
	bomHash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	bomLicense struct {
		License struct {
			ID string `json:"id"`
		} `json:"license"`
	}
	bomProperty struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	bomDependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn,omitempty"`
	}
)

// sbom lists the modules that a binary was built from, as its own build info has them.
func sbom(binary []byte, v version, s source) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read the build info of the binary: %w", err)
	}
	sum := sha256.Sum256(binary)
	program := component("application", info.Main.Path, string(v))
	program.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum[:])}}
	program.Licenses = apache()
	for _, setting := range info.Settings {
		program.Properties = append(program.Properties, bomProperty{"go:build:" + setting.Key, setting.Value})
	}
	if s.revision != "" {
		program.Properties = append(program.Properties, bomProperty{"vcs:revision", s.revision})
	}
	b := bom{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Version: 1, Serial: serial(sum),
		Metadata:   bomMetadata{s.time.Format(time.RFC3339), program},
		Components: []bomComponent{component("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))},
	}
	for _, m := range info.Deps {
		c, err := dependency(m, v)
		if err != nil {
			return nil, err
		}
		b.Components = append(b.Components, c)
	}
	// The binary does not know which module needs which.
	whole := bomDependency{Ref: program.Ref}
	for _, c := range b.Components {
		whole.DependsOn = append(whole.DependsOn, c.Ref)
	}
	b.Dependencies = []bomDependency{whole}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	err = to.Encode(b)
	return out.Bytes(), err
}

// dependency is a module of the binary. Those of rehop have the version of the release, because they come from the same commit.
func dependency(m *debug.Module, v version) (bomComponent, error) {
	if isSibling(m.Path) {
		c := component("library", m.Path, string(v))
		c.Licenses = apache()
		return c, nil
	}
	if m.Replace != nil {
		m = m.Replace
	}
	c := component("library", m.Path, m.Version)
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return bomComponent{}, fmt.Errorf("the module %s %s has the checksum %q in the binary, want the h1 checksum that go.sum has", m.Path, m.Version, m.Sum)
	}
	c.Hashes = []bomHash{{"SHA-256", hex.EncodeToString(sum)}} // of the module, as go.sum has it
	return c, nil
}

func component(kind, name, version string) bomComponent {
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	purl := "pkg:golang/" + strings.Join(segments, "/") + "@" + strings.ReplaceAll(url.PathEscape(version), "+", "%2B")
	return bomComponent{Type: kind, Ref: purl, Name: name, Version: version, Purl: purl}
}

func apache() []bomLicense {
	var l bomLicense
	l.License.ID = "Apache-2.0"
	return []bomLicense{l}
}

// serial is a UUID that depends on the binary alone (version 8, for UUIDs of one's own making).
func serial(sum [sha256.Size]byte) string {
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[0:4], id[4:6], id[6:8], id[8:10], id[10:16])
}
