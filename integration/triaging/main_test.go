package triaging

import (
	"fmt"
	"os"
	"testing"

	"github.com/rehop/rehop/integration/kit"
)

func TestMain(m *testing.M) {
	if process := processOf(); process != nil {
		fmt.Fprintln(os.Stderr, "process:", process())
		os.Exit(1)
	}
	kit.Main(m, 8)
}

// processOf is what this process does instead of testing: a test has started it to kill it.
func processOf() func() error {
	if url := os.Getenv(serviceBroker); url != "" {
		return func() error { return serviceProcess(url) }
	}
	return crashing()
}
