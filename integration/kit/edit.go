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

// checkout is the root of the checkout.
func checkout() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}

// Rebuild compiles the tests of a package of this module, named by its folder, with some edits of the product, and returns the path of
// the program. So a test can be compared with the product as it would be otherwise, and no product code has switches for tests.
func Rebuild(t testing.TB, folder string, edits ...Edit) (program string) {
	t.Helper()
	return RebuildIn(t, "integration", folder, edits...)
}

// RebuildIn is Rebuild for a package of the module in a folder of the checkout; ".": the root module.
func RebuildIn(t testing.TB, module, folder string, edits ...Edit) (program string) {
	t.Helper()
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for path, source := range Edited(t, edits...) {
		overlay.Replace[path] = filepath.Join(dir, fmt.Sprint(len(overlay.Replace), filepath.Ext(path)))
		if err := os.WriteFile(overlay.Replace[path], source, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, filepath.Base(folder)+".test")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-overlay", list, "-o", program, "./"+folder)
	build.Dir = filepath.Join(checkout(), module)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return program
}

// Edited is what edited files contain, by their paths.
func Edited(t testing.TB, edits ...Edit) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for _, e := range edits {
		path := filepath.Join(checkout(), filepath.FromSlash(e.File))
		source, again := files[path]
		if !again {
			var err error
			if source, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if n := bytes.Count(source, []byte(e.Before)); n != 1 {
			t.Fatalf("%s has this text %d times, want once; adapt the edit to the code: %s", e.File, n, e.Before)
		}
		files[path] = bytes.Replace(source, []byte(e.Before), []byte(e.After), 1)
	}
	return files
}
