package browser

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rehop/rehop/tools/services/internal/debian"
	"github.com/rehop/rehop/tools/services/internal/program"
	"github.com/rehop/rehop/tools/services/internal/state"
)

// newBrowser is a browser whose tree nobody can have installed.
func newBrowser(t *testing.T) *Browser {
	t.Helper()
	dir, err := state.New(filepath.Join(t.TempDir(), "state"), "/some/checkout")
	if err != nil {
		t.Fatal(err)
	}
	return &Browser{dir, debian.Tree{Suite: "nosuch", Name: "browser", Packages: []string{"chromium"}}}
}

func TestMissing(t *testing.T) {
	b := newBrowser(t)
	if got := b.Missing(); !slices.Contains(got, "chromium") {
		t.Errorf("got %v, want that Chromium is missing", got)
	}
	if got := b.InstalledVersion(); got != "" {
		t.Errorf("got version %q of what is not installed", got)
	}
}

// Every program has a variable, and every variable a value where a program is installed.
func TestEnv(t *testing.T) {
	b := newBrowser(t)
	got := make(map[string]string)
	for _, v := range b.Env() {
		got[v.Name] = v.Value
	}
	for name, path := range programs() {
		if want := b.dir.File("browser", filepath.Base(path)); got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
}

// The command passes on its arguments, its pid and its open files, wherever the checkout is.
func TestScript(t *testing.T) {
	b := newBrowser(t)
	dir := filepath.Join(t.TempDir(), "it's here")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Stand-ins for unshare, which needs rights that not every machine gives, and for this program.
	stub := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stub("unshare", `while [ "$1" != -- ]; do shift; done; shift; exec "$@"`)
	self := stub("services", `printf '%s|' "$@"; echo "$$"; cat <&3`)
	c := exec.Command("/bin/sh", "-c", b.script(self, "/usr/bin/chromium"), "sh", "--flag=a b", "c'd")
	c.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	file, err := os.Open(stub("open", "passed on"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c.ExtraFiles = []*os.File{file}
	var out, log strings.Builder
	c.Stdout, c.Stderr = &out, &log
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, log.String())
	}
	lines := strings.Split(out.String(), "\n")
	arguments := strings.Split(lines[0], "|")
	want := []string{program.EnterCommand, b.tree.Root(), "/usr/bin/chromium", "--flag=a b", "c'd"}
	if pid := arguments[len(arguments)-1]; !slices.Equal(arguments[:len(arguments)-1], want) || pid != strconv.Itoa(c.Process.Pid) {
		t.Errorf("got the arguments %q of process %s, want %q of %d", arguments[:len(arguments)-1], pid, want, c.Process.Pid)
	}
	if !strings.Contains(out.String(), "passed on") {
		t.Errorf("got %q, want the content of the open file", out.String())
	}
}
