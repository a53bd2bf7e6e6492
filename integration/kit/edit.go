package kit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Edit replaces a text that a file of the product, named from the root of the checkout, has exactly once.
type Edit struct{ File, Before, After string }

// Rebuild compiles the tests of a package of this module, named by its folder, with some edits of the product, and returns the path of
// the program. So a test can be compared with the product as it would be otherwise, and no product code has switches for tests.
func Rebuild(t testing.TB, folder string, edits ...Edit) (program string) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	module := filepath.Dir(filepath.Dir(file))
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for i, e := range edits {
		path := filepath.Join(filepath.Dir(module), filepath.FromSlash(e.File))
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(source, []byte(e.Before)); n != 1 {
			t.Fatalf("%s has this text %d times, want once; adapt the edit to the code: %s", e.File, n, e.Before)
		}
		changed := filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(changed, bytes.Replace(source, []byte(e.Before), []byte(e.After), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[path] = changed
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, folder+".test")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-overlay", list, "-o", program, "./"+folder)
	build.Dir = module
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return program
}
