//go:build !race

package triaging

import (
	"fmt"
	"os"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		process := crashProcess
		if url := os.Getenv(serviceBroker); url != "" {
			process = func(path string) error { return serviceProcess(url, os.Getenv(serviceManagement), path) }
		}
		if err := process(path); err != nil {
			fmt.Fprintln(os.Stderr, "process:", err)
		}
		os.Exit(1)
	}
	kit.Main(m, 8)
}
