package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	whole = flag.String("dist", "", "`directory` of a whole release to examine, as make release leaves it (default one for this machine that the test builds)")
	cold  = flag.Bool("cold", false, "build a second time with an empty cache, which takes minutes, to see that the bytes are the same")
)

// published is a release as its users find it: a directory of files.
type published struct {
	release
	dir      string
	archives map[platform][]unpacked // those that were read
}

// TestRelease examines a release for this machine as its users would use it, or with -dist the whole one that is in a directory.
func TestRelease(t *testing.T) {
	p := publish(t)
	for _, check := range []struct {
		name string
		run  func(*testing.T, published)
	}{
		{"Files", checkFiles},
		{"Checksums", checkChecksums},
		{"Archives", checkArchives},
		{"Headers", checkHeaders},
		{"Paths", checkPaths},
		{"Program", checkProgram},
		{"SBOM", checkSBOM},
		{"Deb", checkDeb},
		{"Image", checkImage},
		{"Again", checkAgain},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(t, p) })
	}
}

// publish builds the release that is examined.
func publish(t *testing.T) published {
	t.Helper()
	if *whole != "" {
		return wholeRelease(t)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	r := release{
		version: "v9.8.7-rc.1", platforms: []platform{hostPlatform()}, goCommand: "go", certificates: authority(t), log: t.Output(),
		source: source{dir: root, revision: strings.Repeat("7a", 20), time: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)},
		out:    filepath.Join(t.TempDir(), "dist"),
	}
	if linux := (platform{"linux", hostPlatform().arch}); !slices.Contains(r.platforms, linux) {
		r.platforms = append(r.platforms, linux) // for the package and the image
	}
	if err := r.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return published{r, r.out, make(map[platform][]unpacked)}
}

// wholeRelease is what make release has just built.
func wholeRelease(t *testing.T) published {
	t.Helper()
	sums := string(readFile(t, filepath.Join(*whole, checksumFile)))
	name := regexp.MustCompile(`  rehop_(.+)_linux_amd64\.tar\.gz\n`).FindStringSubmatch(sums)
	if name == nil {
		t.Fatalf("%s has no archive for linux/amd64:\n%s", *whole, sums)
	}
	r := release{version: version("v" + name[1]), platforms: allPlatforms(), goCommand: "go", certificates: "/etc/ssl/certs/ca-certificates.crt", log: t.Output()}
	var err error
	if r.source, err = openSource(t.Context(), "../..", r.version, os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		t.Fatal(err)
	}
	return published{r, *whole, make(map[platform][]unpacked)}
}

// authority is a file with one certificate.
func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true}
	data, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "authorities.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: data}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// tool finds a program that is not a part of this project.
func tool(t *testing.T, name, hint string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name+" is not installed: "+hint)
	}
	return path
}

// missing reports what this machine cannot try: as a skipped test, whose reason make test prints at its end, or as a failure if
// everything is required.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("REHOP_REQUIRE_SERVICES") == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// A release has exactly the files that it should have.
func checkFiles(t *testing.T, p published) {
	want := []string{checksumFile}
	linux := false
	for _, on := range p.platforms {
		base, ending := "rehop_"+p.version.number()+"_"+on.os+"_"+on.arch, ".tar.gz"
		if on.os == "windows" {
			ending = ".zip"
		}
		want = append(want, base+ending, base+".cdx.json")
		if on.os == "linux" {
			linux = true
			want = append(want, "rehop_"+p.version.debian()+"_"+on.arch+".deb")
		}
	}
	if linux {
		want = append(want, "rehop_"+p.version.number()+"_oci.tar")
	}
	files, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Name())
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got the files %q, want %q", got, want)
	}
}

// sha256sum accepts the checksums, which are those of all files.
func checkChecksums(t *testing.T, p published) {
	cmd := exec.Command(tool(t, "sha256sum", "it comes with coreutils"), "--strict", "-c", checksumFile)
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("sha256sum -c: %v\n%s", err, out)
	}
	files, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := bytes.Count(out, []byte(": OK\n")), len(files)-1; got != want {
		t.Errorf("got %d checksums, want %d:\n%s", got, want, out)
	}
}

// The host's binary comes out of its archive, knows its version and runs.
func checkProgram(t *testing.T, p published) {
	host := hostPlatform()
	if !slices.Contains(p.platforms, host) {
		t.Fatalf("the release has no binary for %s", host)
	}
	program := filepath.Join(t.TempDir(), host.program())
	if err := os.WriteFile(program, p.binary(t, host), 0o700); err != nil {
		t.Fatal(err)
	}
	runProgram(t, p, exec.Command(program))
}

// runProgram runs a binary of the release, with the arguments of a test in place of those that a command has.
func runProgram(t *testing.T, p published, template *exec.Cmd) {
	t.Helper()
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), template.Path, args...)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = template.Dir, template.Env, template.SysProcAttr
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("rehop %s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
		}
		return string(out)
	}
	if got, want := run("version"), "rehop "+string(p.version)+" go1."; !strings.HasPrefix(got, want) {
		t.Errorf("rehop version: got %q, want it to begin with %q", got, want)
	}
	if got, want := run("version", "--json"), `"revision": "`+p.source.revision+`"`; !strings.Contains(got, want) {
		t.Errorf("rehop version --json: got %s, want %s", got, want)
	}
	if got := run("demo", "--for", "1s", "--plain"); !strings.Contains(got, "published = handled + failed") {
		t.Errorf("rehop demo: got %s, want that every message is accounted for", got)
	}
}

// A second build, from a copy of the checkout in another directory, gives the same bytes.
func checkAgain(t *testing.T, p published) {
	again := p.release
	again.source.dir = filepath.Join(t.TempDir(), "another place")
	again.out = filepath.Join(t.TempDir(), "dist")
	copyCheckout(t, p.source.dir, again.source.dir)
	if *cold {
		t.Setenv("GOCACHE", t.TempDir())
	}
	if err := again.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !bytes.Equal(readFile(t, filepath.Join(p.dir, f.Name())), readFile(t, filepath.Join(again.out, f.Name()))) {
			t.Errorf("%s differs when it is built in another directory", f.Name())
		}
	}
}

// copyCheckout copies what a release is made of.
func copyCheckout(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if below != "." && strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"bin", "dist", "integration", "testdata"}, below) {
				return fs.SkipDir
			}
			return os.MkdirAll(filepath.Join(to, below), 0o700)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, below), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A directory with files is refused, because they would pass for a part of the release.
func TestNotEmpty(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "old.tar.gz"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := release{out: dir}.build(t.Context())
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("got %v, want an error because the directory is not empty", err)
	}
}
