package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layout is an OCI archive as a reader finds it.
type layout struct {
	files map[string][]byte
	read  map[string]bool // blobs that something refers to
}

// reference is what a file of the layout has about a blob.
type reference struct {
	MediaType, Digest string
	Size              int
	Annotations       map[string]string
	Platform          struct{ OS, Architecture string }
}

// blob is what a reference leads to, with the size and the digest that it has.
func (l layout) blob(t *testing.T, r reference, mediaType string) []byte {
	t.Helper()
	hash, found := strings.CutPrefix(r.Digest, "sha256:")
	data := l.files["blobs/sha256/"+hash]
	if !found || r.MediaType != mediaType || len(data) != r.Size || fmt.Sprintf("%x", sha256.Sum256(data)) != hash {
		t.Fatalf("got a blob of %d bytes for %+v, want type %s and a matching digest", len(data), r, mediaType)
	}
	l.read["blobs/sha256/"+hash] = true
	return data
}

// manifests are those that a blob, or the index of the layout, lists.
func manifests(t *testing.T, data []byte) []reference {
	t.Helper()
	var index struct {
		SchemaVersion int
		MediaType     string
		Manifests     []reference
	}
	if err := json.Unmarshal(data, &index); err != nil {
		t.Fatal(err)
	}
	if index.SchemaVersion != 2 || index.MediaType != "application/vnd.oci.image.index.v1+json" {
		t.Errorf("got an index of version %d and type %s", index.SchemaVersion, index.MediaType)
	}
	return index.Manifests
}

// started is how a container of the image starts.
type started struct {
	User, StopSignal      string
	Entrypoint, Cmd       []string
	Volumes, ExposedPorts map[string]struct{}
	Labels                map[string]string
}

// The image is a valid layout with one image for each processor, which starts as the Containerfile has it.
func checkImage(t *testing.T, p published) {
	files := untar(t, bytes.NewReader(readFile(t, filepath.Join(p.dir, "rehop_"+p.version.number()+"_oci.tar"))))
	sameOwners(t, p, files)
	l := layout{make(map[string][]byte), make(map[string]bool)}
	for _, f := range files {
		if !f.mode.IsDir() {
			l.files[f.name] = f.body
		}
	}
	if got := string(l.files["oci-layout"]); got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout: got %s", got)
	}
	top := manifests(t, l.files["index.json"])
	if len(top) != 1 || top[0].Annotations["io.containerd.image.name"] != "localhost/rehop:"+p.version.number() {
		t.Fatalf("got the index %+v, want one image with its name", top)
	}
	var want, got []string
	for _, on := range p.platforms {
		if on.os == "linux" {
			want = append(want, on.arch)
		}
	}
	for _, r := range manifests(t, l.blob(t, top[0], "application/vnd.oci.image.index.v1+json")) {
		got = append(got, r.Platform.Architecture)
		t.Run(r.Platform.Architecture, func(t *testing.T) { l.checkManifest(t, p, r) })
	}
	if !slices.Equal(got, want) {
		t.Errorf("got images for %q, want %q", got, want)
	}
	for name := range l.files {
		if strings.HasPrefix(name, "blobs/") && !l.read[name] {
			t.Errorf("nothing refers to %s", name)
		}
	}
}

// checkManifest examines the image of a processor, and runs that of this machine.
func (l layout) checkManifest(t *testing.T, p published, r reference) {
	t.Helper()
	var manifest struct {
		SchemaVersion int
		MediaType     string
		Config        reference
		Layers        []reference
	}
	if err := json.Unmarshal(l.blob(t, r, "application/vnd.oci.image.manifest.v1+json"), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.SchemaVersion != 2 || manifest.MediaType != r.MediaType || len(manifest.Layers) != 1 {
		t.Fatalf("got manifest %+v, want one of version 2 with one layer", manifest)
	}
	var config struct {
		OS, Architecture string
		Config           started
		RootFS           struct {
			Type    string
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(l.blob(t, manifest.Config, "application/vnd.oci.image.config.v1+json"), &config); err != nil {
		t.Fatal(err)
	}
	layer := gunzip(t, l.blob(t, manifest.Layers[0], "application/vnd.oci.image.layer.v1.tar+gzip"))
	if want := []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}; !slices.Equal(config.RootFS.DiffIDs, want) || config.RootFS.Type != "layers" {
		t.Errorf("got the layers %+v, want %q", config.RootFS, want)
	}
	if config.OS != "linux" || config.Architecture != r.Platform.Architecture || r.Platform.OS != "linux" {
		t.Errorf("got an image for %s/%s, which the index has as %+v", config.OS, config.Architecture, r.Platform)
	}
	checkStarted(t, p, config.Config)
	files := untar(t, bytes.NewReader(layer))
	checkLayer(t, p, files, config.Config, platform{config.OS, config.Architecture})
	if config.Architecture == hostPlatform().arch {
		t.Run("run", func(t *testing.T) { runImage(t, p, files, config.Config) })
	}
}

// checkStarted compares the settings of the image with the lines of the Containerfile.
func checkStarted(t *testing.T, p published, s started) {
	t.Helper()
	lines := strings.Split(string(readFile(t, filepath.Join(p.source.dir, "deploy/Containerfile"))), "\n")
	list := func(words []string) string {
		text, err := json.Marshal(words)
		if err != nil {
			t.Fatal(err)
		}
		return strings.ReplaceAll(string(text), ",", ", ")
	}
	var ports []string
	for port := range s.ExposedPorts {
		ports = append(ports, strings.TrimSuffix(port, "/tcp"))
	}
	for _, want := range []string{
		"USER " + s.User, "STOPSIGNAL " + s.StopSignal, "ENTRYPOINT " + list(s.Entrypoint), "CMD " + list(s.Cmd),
		"VOLUME " + strings.Join(slices.Sorted(maps.Keys(s.Volumes)), " "),
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("the image has %q, which is not in deploy/Containerfile", want)
		}
	}
	exposed := lines[slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "EXPOSE ") })]
	if !slices.Equal(slices.Sorted(slices.Values(ports)), slices.Sorted(slices.Values(strings.Fields(exposed)[1:]))) {
		t.Errorf("got the ports %q, want %s", ports, exposed)
	}
	if s.Labels["org.opencontainers.image.version"] != p.version.number() || s.Labels["org.opencontainers.image.revision"] != p.source.revision {
		t.Errorf("got the labels %q", s.Labels)
	}
}

// checkLayer sees that there is all that a container needs, and that its user may write to the volume alone.
func checkLayer(t *testing.T, p published, files []unpacked, s started, on platform) {
	t.Helper()
	user, err := strconv.Atoi(strings.Split(s.User, ":")[0])
	if err != nil || user == 0 {
		t.Fatalf("the image runs as %q, want a number that is not 0", s.User)
	}
	found := make(map[string]unpacked)
	for _, f := range files {
		found["/"+strings.TrimSuffix(f.name, "/")] = f
		owner := 0
		if _, ok := s.Volumes["/"+strings.TrimSuffix(f.name, "/")]; ok {
			owner = user
		}
		if f.uid != owner || f.gid != owner || f.names != "" || !f.time.Equal(p.source.time) {
			t.Errorf("%s belongs to %d:%d %q and is from %v, want %d and %v", f.name, f.uid, f.gid, f.names, f.time, owner, p.source.time)
		}
	}
	for volume := range s.Volumes {
		if f := found[volume]; f.mode != fs.ModeDir|0o755 {
			t.Errorf("the volume %s has the mode %v, want a directory with 0755", volume, f.mode)
		}
	}
	program := found[s.Entrypoint[0]]
	if program.mode != 0o755 || !bytes.Equal(program.body, p.binary(t, on)) {
		t.Errorf("%s has the mode %v and %d bytes, want the program of the archive", s.Entrypoint[0], program.mode, len(program.body))
	}
	if !x509.NewCertPool().AppendCertsFromPEM(found["/etc/ssl/certs/ca-certificates.crt"].body) {
		t.Error("the image has no certificates of authorities")
	}
}

// runImage runs the program of the image with the image's files as its root, as the image's user.
func runImage(t *testing.T, p published, files []unpacked, s started) {
	root := filepath.Join(t.TempDir(), "root")
	for _, f := range files {
		name := filepath.Join(root, f.name)
		if f.mode.IsDir() {
			if err := os.MkdirAll(name, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(name, f.body, f.mode.Perm()); err != nil {
			t.Fatal(err)
		}
	}
	user, err := strconv.Atoi(strings.Split(s.User, ":")[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: s.Entrypoint[0], Dir: "/", Env: []string{}}
	if err := confine(cmd, root, user); err != nil {
		missing(t, "the program of the image was not run: "+err.Error())
	}
	runProgram(t, p, cmd)
}
