package kit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// workshop is the variable with the directory in which the program rehop is built.
const workshop = "REHOP_WORKSHOP"

// MainWithProgram runs the tests of a package that uses Program, and returns the exit code.
func MainWithProgram(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rehop-program-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	os.Setenv(workshop, dir)
	return m.Run()
}

// Program is the path of the program rehop, which is built once for each package. TestMain must call MainWithProgram.
func Program(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var build = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.Getenv(workshop), "rehop")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, "github.com/rehop/rehop/cmd/rehop").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build rehop: %w\n%s", err, out)
	}
	return path, nil
})
