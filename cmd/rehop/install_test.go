package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// modules are the modules that users can require, by directory.
var modules = map[string]string{
	".": "github.com/rehop/rehop", "rehopotel": "github.com/rehop/rehop/rehopotel", "outbox/outboxpgx": "github.com/rehop/rehop/outbox/outboxpgx",
	"cmd/rehop": "github.com/rehop/rehop/cmd/rehop",
}

// sibling matches a module of this repository, and its version, in a go.mod.
var sibling = regexp.MustCompile(`(github\.com/rehop/rehop[\w/]*) (v\S+)`)

// The modules of this repository require each other in one version, which go.work replaces in a checkout. A replace in go.mod would
// prevent go install.
func TestModulesAgree(t *testing.T) {
	release := releaseVersion(t)
	for _, file := range append(slices.Sorted(maps.Keys(modules)), "examples", "integration") {
		text := read(t, "../../"+file+"/go.mod")
		if strings.Contains(text, "replace ") {
			t.Errorf("%s/go.mod has a replace: go.work is the place for it", file)
		}
		for _, m := range sibling.FindAllStringSubmatch(text, -1) {
			if m[2] != release {
				t.Errorf("%s/go.mod requires %s %s, want %s as in the others", file, m[1], m[2], release)
			}
		}
	}
	for _, file := range []string{"go.work", "integration/go.work"} {
		work := read(t, "../../"+file)
		for dir, module := range modules {
			if dir != "cmd/rehop" && !strings.Contains(work, fmt.Sprintf("replace %s %s => ", module, release)) {
				t.Errorf("%s does not replace %s %s", file, module, release)
			}
		}
	}
}

// The go command reads go.mod of all that the modules of a workspace depend on, before it compiles the first package. The tests of module integration
// depend on other clients, drivers and mappers, so the module is not in the workspace in which people try rehop.
func TestWorkspaceIsSmall(t *testing.T) {
	edit := exec.Command("go", "work", "edit", "-json", "go.work")
	edit.Dir = "../.."
	var work struct{ Use []struct{ DiskPath string } }
	if err := json.Unmarshal([]byte(outputOf(t, edit)), &work); err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, u := range work.Use {
		used = append(used, filepath.ToSlash(filepath.Clean(u.DiskPath)))
	}
	slices.Sort(used)
	want := append(slices.Sorted(maps.Keys(modules)), "examples")
	slices.Sort(want)
	if !slices.Equal(used, want) {
		t.Errorf("go.work has %q, want %q", used, want)
	}
}

// go install finds everything that it needs on a module proxy that has the modules as they would be released. With -n it does not
// compile, which would take minutes, because a module cache of its own has no compiled packages. The long form compiles, and runs the result.
func TestInstall(t *testing.T) {
	release, proxy, long := releaseVersion(t), t.TempDir(), os.Getenv("REHOP_FAULTS") == "long"
	for dir, module := range modules {
		serveModule(t, proxy, dir, module, release)
	}
	cached := strings.TrimSpace(outputOf(t, exec.Command("go", "env", "GOMODCACHE")))
	others := strings.TrimSpace(outputOf(t, exec.Command("go", "env", "GOPROXY")))
	for _, installed := range []string{"github.com/rehop/rehop/cmd/rehop", "github.com/rehop/rehop/cmd/rehop/demo"} {
		bin := t.TempDir()
		install := exec.Command("go", "install", "-n", "-modcacherw", installed+"@"+release)
		if long {
			install.Args = slices.DeleteFunc(install.Args, func(arg string) bool { return arg == "-n" })
		}
		install.Dir = t.TempDir()
		install.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOBIN="+bin, "GOMODCACHE="+t.TempDir(), "GOSUMDB=off",
			// Most of what other modules have is in the cache already, because this test was built with it. The workspace has chosen newer versions of some.
			"GOPROXY=file://"+filepath.ToSlash(proxy)+",file://"+filepath.ToSlash(cached)+"/cache/download,"+others)
		var out, commands bytes.Buffer
		install.Stdout, install.Stderr = &out, &commands
		if err := install.Run(); err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(install.Args, " "), err, commands.String())
		}
		if long {
			run := exec.Command(filepath.Join(bin, path.Base(installed)), "-h")
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%v: %v\n%s", run, err, out)
			}
			continue
		}
		if !strings.Contains(commands.String(), "@"+release) || !strings.Contains(commands.String(), "/link") {
			t.Errorf("%s: it would not compile and link %s:\n%s", installed, release, commands.String())
		}
	}
}

// Each module, as it would be released, has all files that its packages embed. The go command does not compile a package that embeds a file
// which is not there, and finds nothing wrong with one that embeds a directory in which a file is missing.
func TestModulesHaveEmbeddedFiles(t *testing.T) {
	release, proxy, found := releaseVersion(t), t.TempDir(), 0
	for dir, module := range modules {
		serveModule(t, proxy, dir, module, release)
		released, err := zip.OpenReader(filepath.Join(proxy, module, "@v", release+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		var has []string
		for _, file := range released.File {
			has = append(has, file.Name)
		}
		_ = released.Close()
		list := exec.Command("go", "list", "-f", "{{range .EmbedFiles}}{{$.ImportPath}}/{{.}}\n{{end}}", "./...")
		list.Dir = filepath.Join("../..", dir)
		for file := range strings.FieldsSeq(outputOf(t, list)) {
			found++
			in, _ := strings.CutPrefix(file, module)
			if name := module + "@" + release + in; !slices.Contains(has, name) || strings.Contains(in, "/vendor/") { // the go command leaves these out
				t.Errorf("%s: a package embeds %s, which the released module does not have", module, file)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d files that are embedded, want at least those of the console", found)
	}
}

// releaseVersion is the version in which cmd/rehop requires the library.
func releaseVersion(t *testing.T) string {
	t.Helper()
	m := sibling.FindStringSubmatch(read(t, "go.mod")[len("module github.com/rehop/rehop/cmd/rehop"):])
	if m == nil {
		t.Fatal("go.mod does not require the library")
	}
	return m[2]
}

// serveModule writes a module into the directory of a proxy: the files that git knows, without other modules.
func serveModule(t *testing.T, proxy, dir, module, version string) {
	t.Helper()
	root := filepath.Join("../..", dir)
	var others []string
	for _, file := range strings.Fields(outputOf(t, git(root, "ls-files", "--cached", "--others", "--exclude-standard", "*/go.mod"))) {
		others = append(others, filepath.ToSlash(filepath.Dir(file))+"/")
	}
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, file := range strings.Split(strings.TrimSpace(outputOf(t, git(root, "ls-files", "--cached", "--others", "--exclude-standard"))), "\n") {
		inOther := slices.ContainsFunc(others, func(other string) bool { return strings.HasPrefix(file, other) })
		text, err := os.ReadFile(filepath.Join(root, file))
		if inOther || os.IsNotExist(err) || strings.HasPrefix(file, `"`) { // git quotes names that no module can have
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		entry, err := w.Create(module + "@" + version + "/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(proxy, module, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version),
		version + ".mod": []byte(read(t, filepath.Join(root, "go.mod"))), version + ".zip": archive.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func git(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	return cmd
}

func outputOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var out, fault bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &fault
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, fault.String())
	}
	return out.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
