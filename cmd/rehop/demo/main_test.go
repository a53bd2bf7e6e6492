package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Whoever tries rehop first compiles the demo, with all that it imports. So it does without packages that are large, or of which it would
// need little.
func TestDependencies(t *testing.T) {
	list := exec.Command("go", "list", "-deps", ".")
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	found := strings.Fields(string(out))
	if !slices.Contains(found, "github.com/rehop/rehop/broker") {
		t.Fatalf("%v: it does not list the broker, which the demo starts: %q", list, found)
	}
	for _, path := range found {
		for _, unwanted := range unwanted() {
			if path == unwanted || strings.HasPrefix(path, unwanted+"/") {
				t.Errorf("the demo depends on %s", path)
			}
		}
	}
}

// Nor does the demo grow unnoticed: what compiling costs depends on how many packages there are, and how long they are. Whoever has to raise a
// bound should first measure with an empty GOCACHE what that costs, in seconds of the processor.
func TestSize(t *testing.T) {
	const (
		packages = 232       // 229 with Go 1.26
		ours     = 2_300_000 // bytes of this repository and of amqp091-go; there are 2,193,000
	)
	list := exec.Command("go", "list", "-deps", "-f", "{{.Standard}}{{range .GoFiles}}\t{{$.Dir}}/{{.}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=") // each platform has a few of its own
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) > packages {
		t.Errorf("the demo depends on %d packages, want at most %d", len(lines), packages)
	}
	size := int64(0)
	for _, line := range lines {
		files := strings.Split(line, "\t")
		if files[0] == "true" {
			continue
		}
		for _, file := range files[1:] {
			info, err := os.Stat(filepath.FromSlash(file))
			if err != nil {
				t.Fatal(err)
			}
			size += info.Size()
		}
	}
	if size > ours || size < ours/2 {
		t.Errorf("the demo compiles %d bytes besides the standard library, want at most %d", size, ours)
	}
}

func unwanted() []string {
	const rehop = "github.com/rehop/rehop"
	all := []string{"encoding/xml", "database/sql", "html/template", "github.com/spf13/cobra", "modernc.org/sqlite", "go.opentelemetry.io/otel",
		rehop + "/console", rehop + "/triage", rehop + "/outbox", rehop + "/cmd/rehop/internal/cli", rehop + "/cmd/rehop/internal/serve"}
	if runtime.GOOS == "linux" {
		all = append(all, "golang.org/x/term", "golang.org/x/sys/unix")
	}
	return all
}
